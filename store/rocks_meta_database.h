// MetaDatabase: the RocksDB database of meta/ as files: options, column families, and what a
// damaged log has lost. Policy (when to open, retry, refuse) is RocksMetaStore's; rebuilding is
// RepairMeta's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "store/meta_store.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Env;
class WalFilter;
}  // namespace rocksdb

namespace kvgate::store {

inline constexpr size_t kNumMetaTables = 5;
const char* MetaTableName(MetaTable table);

// What opening found of the log. A record that was cut off by the end of the process or of power
// was never acknowledged, and is none of it.
struct LogLosses {
  uint64_t num_writes = 0;  // rows that were written and are not there: gaps in their numbering
  uint64_t num_bytes = 0;   // of damaged log that was skipped
  std::string first;        // the first damage, in RocksDB's words
};

class MetaDatabase {
 public:
  struct Options {
    std::filesystem::path directory;
    bool read_only = false;
    // For repair: opens what it can of a database whose tables are damaged.
    bool lenient = false;
    rocksdb::Env* env = nullptr;  // null: PrivateEnv()
  };
  // Creates when missing (not when read_only: kNotFound). kDataLoss: a table, MANIFEST or CURRENT
  // is damaged. A damaged log is read around: losses() tells.
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

  // RocksDB's own rebuilding of MANIFEST and CURRENT from the tables and logs that are there; what
  // cannot be read goes to DIRECTORY/lost.
  static Result<void> RebuildFromTables(const Options& options);

 private:
  MetaDatabase();

  std::unique_ptr<rocksdb::WalFilter> gaps_;  // RocksDB keeps a pointer to it
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  LogLosses losses_;
};

}  // namespace kvgate::store
