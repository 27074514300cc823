// RepairMeta: reads what can be read of a damaged meta/ and makes a new one of it. Slow, and needs
// room for a second copy; the old one is kept beside the new one as meta.damaged-MS.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>

#include <kvgate/result.h>

#include "store/meta/meta_store.h"
#include "store/meta/rocks_meta_database.h"

namespace kvgate::store {

struct MetaRepairReport {
  bool was_healthy = false;  // every row could be read: nothing has been changed
  std::array<uint64_t, kNumMetaTables> num_rows{};
  uint64_t num_gaps = 0;       // ranges of keys that could not be read
  uint64_t num_log_rows = 0;   // that the log has lost
  uint64_t num_log_bytes = 0;  // of the log that could not be read
  uint64_t num_tables = 0;     // tables of which nothing could be read
  std::filesystem::path set_aside;
  bool complete() const { return num_gaps + num_log_rows + num_log_bytes + num_tables == 0; }
};

// `directory` is the database's own. REQUIRES: nobody has it open; the data directory's lock is
// held. kNotFound: there is none. What fails leaves the old one where it was.
Result<MetaRepairReport> RepairMeta(const std::filesystem::path& directory,
                                    rocksdb::Env* env = nullptr);

// A repair that was cut off between its two renames is finished. Costs two look-ups.
void FinishMetaRepair(const std::filesystem::path& directory);

}  // namespace kvgate::store
