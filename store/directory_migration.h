// Migrates a meta/ of an older format, or one written with other secrets: turns and pins are sealed
// again with the first secret of the meta store's keyring, and the rows of turns are renamed by it.
// Each step writes some turns with all their rows in one batch, so that after a kill at any moment
// the next start continues. Not thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/seal.h"
#include "store/meta/meta_store.h"

namespace kvgate::store {

struct MigrationReport {
  uint64_t num_turns = 0;  // rewritten; 0 if all were current already
  uint64_t num_conversations = 0;
  uint64_t num_turns_damaged = 0;  // dropped
  uint64_t num_turns_foreign = 0;  // sealed with a missing secret; left as they are
  uint64_t num_pins = 0;           // rewritten
  uint64_t num_records = 0;        // KV records that were dropped, to be computed again
};

// Returns true if a sealed value (sealed_value.h) was sealed with the ring's first secret.
bool IsSealedWithFirst(const Keyring& ring, std::string_view value);

Result<void> MigrateTurns(meta::MetaStore& meta, MigrationReport& report);
Result<void> MigratePins(meta::MetaStore& meta, MigrationReport& report);

}  // namespace kvgate::store
