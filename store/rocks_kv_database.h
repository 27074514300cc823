// KvDatabase: the RocksDB database of kv/: two column families (index entries; records, whose
// values are in blob files), no WAL, both flushed as one.
//
// It knows bytes and files, not trees or policy: when to write, evict or collect is its owner's.
// Memory: two write buffers (KvSizes), 8 MiB of table blocks, one record per concurrent read.
// All functions may be called from any thread; the destructor when none is inside.
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

#include <kvgate/result.h>

#include "store/kv_format.h"
#include "store/kv/kv_store.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Env;
}  // namespace rocksdb

namespace kvgate::store {

// Sizes that follow from the cap, so that a small cap holds as exactly as a large one.
struct KvSizes {
  uint64_t write_buffer_bytes = 0;  // 1/32 of the cap, 1 to 64 MiB; two may exist at once
  uint64_t blob_file_bytes = 0;     // 1/64 of the cap, 1 to 256 MiB: the grain of freeing space
  uint64_t batch_bytes = 0;         // one atomic write: at most 4 MiB
  static KvSizes For(uint64_t capacity_bytes);
};

struct KvDatabaseOptions {
  std::filesystem::path directory;
  uint64_t capacity_bytes = 0;
  bool read_only = false;
  rocksdb::Env* env = nullptr;  // null: PrivateEnv()
  // Called on RocksDB's threads when it stops background work; must not call back in.
  std::function<void()> on_background_error = [] {};
};

// One write: deletes, then puts, atomically and in this order.
struct KvChange {
  std::span<const KvKey> deletes;
  std::span<const KvRecord> records;      // each with the entry of the same index
  std::span<const KvIndexEntry> entries;  // may be longer: entries without a record are rewritten
};

struct KvBlobFile {
  uint64_t number = 0;
  uint64_t file_bytes = 0;
  uint64_t live_bytes = 0;  // as far as compactions have seen deletions
};

class KvDatabase {
 public:
  // Creates when missing (not when read_only: kNotFound). kDataLoss: damaged.
  static Result<std::unique_ptr<KvDatabase>> Open(const KvDatabaseOptions& options);
  ~KvDatabase();
  KvDatabase(const KvDatabase&) = delete;
  KvDatabase& operator=(const KvDatabase&) = delete;

  // Every index entry that holds; the keys of those that do not go to `damaged`.
  Result<std::vector<KvIndexEntry>> ReadIndex(std::vector<KvKey>& damaged) const;
  // Calls `use` with the record's bytes while they are in memory. kNotFound: no such record.
  Result<void> ReadRecord(const KvKey& key,
                          const std::function<Result<void>(std::string_view)>& use) const;
  Result<void> Write(const KvChange& change);
  Result<void> DeleteEverything();
  // On disk, for good, when it returns.
  Result<void> Flush();

  // Merges the tables: deletions become known garbage, and files that hold nothing else go away.
  Result<void> Compact();
  // The same, and moves what is live out of the `num_files` oldest blob files, which go away.
  Result<void> Collect(size_t num_files);
  std::vector<KvBlobFile> BlobFiles() const;  // oldest first
  // Compact and Collect return kCancelled soon after, now and ever.
  void CancelCompactions() { cancelled_ = true; }

  uint64_t MemtableBytes() const;
  // The sum of the sizes of the directory's files.
  uint64_t DiskBytes() const;

  // Why RocksDB stopped background work; empty when it did not.
  std::optional<Error> BackgroundError() const;

  const KvSizes& sizes() const { return sizes_; }

 private:
  class Listener;
  KvDatabase(const KvDatabaseOptions& options, std::shared_ptr<Listener> listener);
  Result<void> CompactAll(std::optional<double> age_cutoff);

  KvDatabaseOptions options_;
  KvSizes sizes_;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ColumnFamilyHandle* index_ = nullptr;
  rocksdb::ColumnFamilyHandle* records_ = nullptr;
  std::atomic<bool> cancelled_{false};
  // Held by Compact, Collect and DeleteEverything: the file list that Collect counts stays put.
  std::mutex compaction_mutex_;
};

// Renames `directory`, or a file in its place, to NAME.damaged-TIME; older ones of that name go,
// unless what is in them cannot be made again.
enum class OlderOnes { kRemove, kKeep };
Result<std::filesystem::path> SetAside(const std::filesystem::path& directory,
                                       OlderOnes older = OlderOnes::kRemove);

}  // namespace kvgate::store
