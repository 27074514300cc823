// MetaDatabase: the RocksDB database of meta/ as files: options, column families, and what a
// damaged log has lost. Policy (when to open, retry, refuse) is RocksMetaStore's; rebuilding is
// RepairMeta's.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "store/file/acked_sequence.h"
#include "store/meta/meta_store.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Env;
}  // namespace rocksdb

namespace kvgate::store {

inline constexpr size_t kNumMetaTables = 5;
const char* MetaTableName(MetaTable table);

// Beside the database: what of it was acknowledged.
inline std::filesystem::path AckedPath(const std::filesystem::path& directory) {
  return directory.string() + ".sequence";
}

// What opening found of the log. A record that was cut off by the end of the process or of power
// was never acknowledged, and is none of it.
struct LogLosses {
  // Rows that were written and are not there: gaps in their numbering, and what is missing before
  // the first and behind the last of them where it is known which those were (AckedSequence).
  uint64_t num_writes = 0;
  uint64_t num_bytes = 0;  // of damaged log that was skipped
  std::string first;       // the first damage, in RocksDB's words
};

class MetaDatabase {
 public:
  struct Options {
    std::filesystem::path directory;
    bool read_only = false;
    // For repair: opens what it can of a database whose tables are damaged.
    bool lenient = false;
    // Where it is noted what was acknowledged; empty: nowhere. Written unless read_only.
    std::filesystem::path acked_path = {};
    rocksdb::Env* env = nullptr;  // null: PrivateEnv()
  };
  // Creates when missing (not when read_only: kNotFound). kDataLoss: a table, MANIFEST or CURRENT
  // is damaged, or the MANIFEST has lost what it had. A damaged log is read around: losses() tells.
  static Result<std::unique_ptr<MetaDatabase>> Open(const Options& options);
  ~MetaDatabase();
  MetaDatabase(const MetaDatabase&) = delete;
  MetaDatabase& operator=(const MetaDatabase&) = delete;

  rocksdb::DB& db() const { return *db_; }
  rocksdb::ColumnFamilyHandle* Family(MetaTable table) const {
    return families_[static_cast<size_t>(table) + 1];  // behind "default", which is not used
  }
  const LogLosses& losses() const { return losses_; }
  uint64_t LatestSequence() const;
  // All that has been written is about to be acknowledged. REQUIRES: opened with acked_path.
  void Acknowledge();

  // Drops records of a log that this store has not written; returns how many bytes they had.
  static uint64_t KeepOwnBatches(std::vector<std::string>& records);

  // RocksDB's own rebuilding of MANIFEST and CURRENT from the tables that are there; what cannot be
  // read goes to DIRECTORY/lost. REQUIRES: no log is there: it would assert what is in one.
  static Result<void> RebuildFromTables(const Options& options);

 private:
  class GapCounter;
  class Listener;
  explicit MetaDatabase(const Options& options);
  void CountLosses(const AckedState& acked, bool same_manifest);
  void BeginAnew();
  void NoteBase(uint64_t num_flushes);

  const Options options_;
  std::shared_ptr<Listener> listener_;
  std::unique_ptr<AckedSequence> acked_;  // the listener's, too
  std::atomic<uint64_t> num_flushes_noted_{0};
  std::unique_ptr<GapCounter> gaps_;  // RocksDB keeps a pointer to it
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  LogLosses losses_;
};

}  // namespace kvgate::store
