// What brings meta/ of an older format, or of other secrets, to those of now: turns and pins are
// sealed with the first secret of the meta store's keyring, and turns' rows named by it. Each step
// is one write of turns with all their rows: killed at any moment, the next start goes on. Not for
// several threads.
#pragma once

#include <cstdint>
#include <string_view>

#include <kvgate/result.h>
#include "base/seal.h"

#include "store/meta/meta_store.h"

namespace kvgate::store {

struct MigrationReport {
  uint64_t num_turns = 0;  // written again; 0: they were as they should be
  uint64_t num_conversations = 0;
  uint64_t num_turns_damaged = 0;  // dropped
  uint64_t num_turns_foreign = 0;  // of a secret that is not there: left as they are
  uint64_t num_pins = 0;           // written again
  uint64_t num_records = 0;        // of KV, dropped: they are computed again
};

// Whether a sealed value (sealed_value.h) was sealed with the ring's first secret.
bool IsSealedWithFirst(const Keyring& ring, std::string_view value);

Result<void> MigrateTurns(MetaStore& meta, MigrationReport& report);
Result<void> MigratePins(MetaStore& meta, MigrationReport& report);

}  // namespace kvgate::store
