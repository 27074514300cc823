// What the RocksDB files of this folder share: statuses turned into errors, and the logger.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include <kvgate/result.h>

namespace rocksdb {
class Env;
class Logger;
class Status;
class TableFactory;
}  // namespace rocksdb

namespace kvgate::store {

// `doing` is what was being done: "writing 12 records". Full disk: kIo, retryable. Damage and
// missing files: kDataLoss. Stalls: kOverloaded, retryable.
Error FromStatus(const rocksdb::Status& status, std::string_view source, std::string_view doing);

// What a row takes in a write batch beside its key and value, and the batch itself, at most. A
// batch gets its room before its rows: RocksDB asserts when there is no memory for one of them.
inline constexpr size_t kBatchRowBytes = 32;

// Warnings and errors of RocksDB go to KVGATE_LOG, so that it keeps no LOG files of its own.
std::shared_ptr<rocksdb::Logger> MakeRocksLogger(std::string_view part);

// An error of FromStatus that passes when there is room again.
inline bool SaysFull(const Error& error) {
  return error.detail.find("the disk is full") != std::string::npos;
}

// Whether a file of 1 MiB can be written beside the database `directory` now. RocksDB takes an
// error of the disk, other than a full one, for final: it has to be opened again, which must not be
// tried before the disk is well, because what is closed cannot even be read.
bool IsDiskWell(rocksdb::Env& env, const std::filesystem::path& directory);

// RocksDB begins a new database where there is no CURRENT, and deletes the files of the old one.
// kDataLoss where files with data are there without it; they stay.
Result<void> CheckNotBeheaded(const std::filesystem::path& directory, std::string_view source);

// As FromStatus, of opening a database: what is not as it was written is damage. An error of the
// disk stays one, though RocksDB says "invalid argument" of the options it could not read.
Error FromOpenStatus(const rocksdb::Status& status, std::string_view source,
                     std::string_view doing);

// RocksDB throws nothing of its own, but sizes in damaged files can make it ask for more memory
// than there is: that is damage, not the end of the process.
rocksdb::Status Fenced(const std::function<rocksdb::Status()>& call);

// Tables with a cache of so many bytes, in the format that CheckTable knows, whatever a newer
// RocksDB would choose.
std::shared_ptr<rocksdb::TableFactory> MakeTableFactory(uint64_t cache_bytes);

}  // namespace kvgate::store
