// MetaDatabase: the files of the RocksDB database of meta/: options, column families, and detection
// of losses in a damaged log. RocksMetaStore decides when to open, retry or refuse; RepairMeta
// rebuilds.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/file/acked_sequence.h"
#include "store/file/rocks_file_system.h"
#include "store/meta/meta_store.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Env;
}  // namespace rocksdb

namespace kvgate::store::meta {

inline constexpr size_t kNumMetaTables = 5;
const char* MetaTableName(MetaTable table);

// The file beside the database that remembers what was acknowledged (AckedSequence).
inline std::filesystem::path AckedPath(const std::filesystem::path& directory) {
  return directory.string() + ".sequence";
}

// Losses that opening found in the log. A record cut off by the end of the process or a power loss
// was never acknowledged and does not count.
struct LogLosses {
  // Rows that were written and are missing: gaps in their numbering, and rows missing before the
  // first or behind the last one, as far as AckedSequence tells which these were.
  uint64_t num_writes = 0;
  uint64_t num_bytes = 0;  // damaged log bytes that were skipped
  std::string first;       // the first damage, in RocksDB's words
};

class MetaDatabase {
 public:
  struct Options {
    std::filesystem::path directory;
    bool read_only = false;
    // For repair: opens as much as possible of a database whose tables are damaged.
    bool lenient = false;
    // The AckedSequence file to compare with, and to write unless read_only; empty means none.
    std::filesystem::path acked_path = {};
    rocksdb::Env* env = nullptr;  // null means the shared one of EnvUse
  };
  // Creates the database if it is missing; with read_only that is kNotFound. Returns kDataLoss if a
  // table, MANIFEST or CURRENT is damaged, or the MANIFEST has lost its end. Damaged parts of the
  // log are skipped and reported by losses().
  static Result<std::unique_ptr<MetaDatabase>> Open(const Options& options);
  ~MetaDatabase();
  MetaDatabase(const MetaDatabase&) = delete;
  MetaDatabase& operator=(const MetaDatabase&) = delete;

  rocksdb::DB& db() const { return *db_; }
  rocksdb::ColumnFamilyHandle* Family(MetaTable table) const {
    return families_[static_cast<size_t>(table) + 1];  // index 0 is "default", which is not used
  }
  const LogLosses& losses() const { return losses_; }
  uint64_t LatestSequence() const;
  // Call before acknowledging everything written so far. REQUIRES: opened with acked_path.
  void Acknowledge();

  // Removes the log records that this store did not write. Returns their size in bytes.
  static uint64_t KeepOwnBatches(std::vector<std::string>& records);

  // Lets RocksDB rebuild MANIFEST and CURRENT from the existing tables; unreadable files go to
  // DIRECTORY/lost. REQUIRES: no log files exist, because RocksDB may fail assertions on their
  // content.
  static Result<void> RebuildFromTables(const Options& options);

 private:
  class GapCounter;
  class Listener;
  explicit MetaDatabase(const Options& options);
  void CountLosses(const file::AckedState& acked, bool same_manifest);
  void BeginAnew();
  void NoteBase(uint64_t num_flushes);

  const Options options_;
  const file::EnvUse env_;  // outlives the database
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<file::AckedSequence> acked_;  // shared with the listener
  std::atomic<uint64_t> num_flushes_noted_{0};
  std::unique_ptr<GapCounter> gaps_;  // RocksDB keeps a pointer to it
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  LogLosses losses_;
};

}  // namespace kvgate::store::meta
