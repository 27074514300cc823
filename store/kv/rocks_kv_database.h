// KvDatabase: the RocksDB database of kv/. It has two column families, index entries and records
// (whose values are in blob files), no WAL, and flushes both families atomically.
//
// It knows bytes and files, not trees or policy: its owner decides when to write, evict or collect.
// Memory: two write buffers (KvSizes), 8 MiB of table blocks, one record per concurrent read. All
// functions may be called from any thread, but none may be running during destruction.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/file/rocks_file_system.h"
#include "store/kv/kv_format.h"
#include "store/kv/kv_store.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Env;
}  // namespace rocksdb

namespace kvgate::store::kv {

// Sizes derived from the cap, so that a small cap is kept as precisely as a large one.
struct KvSizes {
  uint64_t write_buffer_bytes = 0;  // 1/32 of the cap, 1 to 64 MiB; two may exist at once
  uint64_t blob_file_bytes = 0;     // 1/64 of the cap, 1 to 256 MiB: the unit of freeing space
  uint64_t batch_bytes = 0;         // one atomic write: at most 4 MiB
  static KvSizes For(uint64_t capacity_bytes);
};

struct KvDatabaseOptions {
  std::filesystem::path directory;
  uint64_t capacity_bytes = 0;
  bool read_only = false;
  rocksdb::Env* env = nullptr;  // null means the shared one of EnvUse
  // Called on RocksDB's threads when it stops background work; must not call this class.
  std::function<void()> on_background_error = [] {};
};

// One write: deletes, then puts, atomically and in this order.
struct KvChange {
  std::span<const KvKey> deletes;
  std::span<const KvRecord> records;      // record i belongs to entry i
  std::span<const KvIndexEntry> entries;  // may be longer: the rest are rewritten alone
};

struct KvBlobFile {
  uint64_t number = 0;
  uint64_t file_bytes = 0;
  uint64_t live_bytes = 0;  // counts only deletions that compactions have seen
};

class KvDatabase {
 public:
  // Creates the database if it is missing; with read_only that is kNotFound. kDataLoss means
  // damage.
  static Result<std::unique_ptr<KvDatabase>> Open(const KvDatabaseOptions& options);
  ~KvDatabase();
  KvDatabase(const KvDatabase&) = delete;
  KvDatabase& operator=(const KvDatabase&) = delete;

  // Returns every valid index entry; the keys of damaged ones are appended to `damaged`.
  Result<std::vector<KvIndexEntry>> ReadIndex(std::vector<KvKey>& damaged) const;
  // Calls `use` with the record's bytes while they are in memory. Returns kNotFound if there is
  // none.
  Result<void> ReadRecord(const KvKey& key,
                          const std::function<Result<void>(std::string_view)>& use) const;
  Result<void> Write(const KvChange& change);
  Result<void> DeleteEverything();
  // On return, everything written is on disk.
  Result<void> Flush();

  // Merges the tables: deleted values become garbage, and files that hold only garbage are removed.
  Result<void> Compact();
  // As Compact, and moves the live values out of the `num_files` oldest blob files, which are
  // removed.
  Result<void> Collect(size_t num_files);
  std::vector<KvBlobFile> BlobFiles() const;  // oldest first
  // From this call on, Compact and Collect return kCancelled soon.
  void CancelCompactions() { cancelled_ = true; }

  uint64_t MemtableBytes() const;
  // Returns the total size of the directory's files.
  uint64_t DiskBytes() const;

  // Says why RocksDB stopped background work; null if it did not.
  std::optional<Error> BackgroundError() const;

  const KvSizes& sizes() const { return sizes_; }

 private:
  class Listener;
  KvDatabase(const KvDatabaseOptions& options, std::shared_ptr<Listener> listener);
  Result<void> CompactAll(std::optional<double> age_cutoff);

  KvDatabaseOptions options_;
  const file::EnvUse env_;  // outlives the database
  KvSizes sizes_;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ColumnFamilyHandle* index_ = nullptr;
  rocksdb::ColumnFamilyHandle* records_ = nullptr;
  std::atomic<bool> cancelled_{false};
  // Held by Compact, Collect and DeleteEverything, so that the files that Collect counts do not
  // change.
  std::mutex compaction_mutex_;
};

// Renames `directory`, or a file in its place, to NAME.damaged-TIME. With kRemove, older such
// copies are deleted; use kKeep if their content cannot be recreated.
enum class OlderOnes { kRemove, kKeep };
Result<std::filesystem::path> SetAside(const std::filesystem::path& directory,
                                       OlderOnes older = OlderOnes::kRemove);

}  // namespace kvgate::store::kv
