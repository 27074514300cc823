// The file system that every database of this folder stands on. Three things that RocksDB has no
// option for: files are readable by their owner only; a table is checked where RocksDB trusts it
// (rocks_table_check); and the value of a blob can be taken as it is
// read (BlobTap), so that the tables' checksums are verified without RocksDB's second pass over
// values that carry a checksum of ours.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include <kvgate/result.h>

namespace rocksdb {
class Env;
class FileSystem;
}  // namespace rocksdb

namespace kvgate::store {

// Over the system's files. Never destroyed: databases may be closed while statics are torn down.
rocksdb::Env* PrivateEnv();
// The one that is given, else PrivateEnv().
rocksdb::Env& EnvOr(rocksdb::Env* env);
// Over another file system, for tests that make it fail. Outlives its databases.
std::unique_ptr<rocksdb::Env> MakePrivateEnv(std::shared_ptr<rocksdb::FileSystem> base);

// While it lives, a blob of at least `bytes_min` that this thread's Get reads from a file goes,
// behind its header of `header_bytes`, to `use` instead of to the caller of Get, who sees an error.
// RocksDB verifies a table's blocks only together with the blob that they lead to, and its CRC-32C
// runs at 1 to 2 GB/s where it is built for any x86-64.
class BlobTap {
 public:
  struct Options {
    uint64_t bytes_min = 0;
    uint64_t header_bytes = 0;
    const std::function<Result<void>(std::string_view)>& use;
  };
  explicit BlobTap(const Options& options);
  ~BlobTap();
  BlobTap(const BlobTap&) = delete;
  BlobTap& operator=(const BlobTap&) = delete;

  bool used() const { return used_; }
  // What `use` said. REQUIRES: used().
  const Result<void>& result() const { return result_; }

  // For the file system: takes a blob that was read, or leaves it.
  static bool Offer(std::string_view bytes);

 private:
  const Options options_;
  bool used_ = false;
  Result<void> result_;
};

}  // namespace kvgate::store
