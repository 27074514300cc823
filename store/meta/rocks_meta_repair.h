// RepairMeta: copies everything readable of a damaged meta/ into a new one. It is slow and needs
// disk space for a second copy. The old one is kept beside the new one as meta.damaged-MS.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "store/meta/meta_store.h"
#include "store/meta/rocks_meta_database.h"

namespace kvgate::store::meta {

struct MetaRepairReport {
  bool was_healthy = false;  // every row could be read, so nothing was changed
  std::array<uint64_t, kNumMetaTables> num_rows{};
  uint64_t num_gaps = 0;       // key ranges that could not be read
  uint64_t num_log_rows = 0;   // rows that the log lost
  uint64_t num_log_bytes = 0;  // log bytes that could not be read
  uint64_t num_tables = 0;     // tables that could not be read at all
  std::filesystem::path set_aside;
  bool complete() const { return num_gaps + num_log_rows + num_log_bytes + num_tables == 0; }
};

// `directory` is the database's own. REQUIRES: nobody has it open and the caller holds the data
// directory's lock. Returns kNotFound if there is none. On failure the old one stays in place.
Result<MetaRepairReport> RepairMeta(const std::filesystem::path& directory,
                                    rocksdb::Env* env = nullptr);

// Finishes a repair that was interrupted between its two renames. Costs two look-ups.
void FinishMetaRepair(const std::filesystem::path& directory);

}  // namespace kvgate::store::meta
