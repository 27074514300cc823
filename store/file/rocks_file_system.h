// The file system under every database of the store. It adds three things that RocksDB has no
// option for: files are readable by their owner only; tables are checked when they are opened,
// because RocksDB trusts them (rocks_table_check); and BlobTap hands over the value of a blob as it
// is read, so that tables' checksums are verified without a second pass by RocksDB over values that
// carry our own checksum.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/result.h"

namespace rocksdb {
class Env;
class FileSystem;
}  // namespace rocksdb

namespace kvgate::store::file {

// The use of an Env by a database: the given one, or if null, one that all uses share. That one
// wraps the system's files and has background threads of its own, which end with the last use: a
// library that is unloaded leaves none. Thread-safe; also while statics are torn down.
class EnvUse {
 public:
  explicit EnvUse(rocksdb::Env* given = nullptr);
  ~EnvUse();
  EnvUse(const EnvUse&) = delete;
  EnvUse& operator=(const EnvUse&) = delete;

  rocksdb::Env* get() const { return env_; }
  rocksdb::Env& operator*() const { return *env_; }

 private:
  const bool is_shared_;
  rocksdb::Env* const env_;
};
// Wraps another file system, for tests that inject failures. It must outlive its databases.
std::unique_ptr<rocksdb::Env> MakePrivateEnv(std::shared_ptr<rocksdb::FileSystem> base);

// While a BlobTap lives, the first blob of at least `bytes_min` bytes that this thread's Get reads
// from a file is passed to `use`, without its header of `header_bytes`; the caller of Get sees an
// error. The reason: RocksDB verifies a table's blocks only together with the blob that they point
// to, and its CRC-32C runs at only 1 to 2 GB/s when built for generic x86-64.
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
  // Returns the result of `use`. REQUIRES: used().
  const Result<void>& result() const { return result_; }

  // Called by the file system with a blob that was read. Returns true if the tap took it.
  static bool Offer(std::string_view bytes);

 private:
  const Options options_;
  bool used_ = false;
  Result<void> result_;
};

}  // namespace kvgate::store::file
