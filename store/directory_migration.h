// Migrates a meta/ of an older format, or one written with other secrets: turns and pins are sealed
// again with the first secret of the meta store's keyring, the rows of turns are renamed by it, and
// stored responses become sessions.
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
  uint64_t num_sessions = 0;       // conversations that are listed as sessions from now on
};

// Returns true if a sealed value (sealed_value.h) was sealed with the ring's first secret.
bool IsSealedWithFirst(const Keyring& ring, std::string_view value);

Result<void> MigrateTurns(meta::MetaStore& meta, MigrationReport& report);
// Lists conversations of stored responses as sessions, which format 3 did not: each gets the root
// that FORMAT.md describes, and stays as old as it is. What is listed already stays as it is.
// REQUIRES: MigrateTurns, for a directory of format 1.
Result<void> MigrateSessions(meta::MetaStore& meta, MigrationReport& report);
Result<void> MigratePins(meta::MetaStore& meta, MigrationReport& report);

}  // namespace kvgate::store
