// Helpers that the RocksDB files of the store share: conversion of statuses to errors, the
// logger.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "base/result.h"

namespace rocksdb {
class Env;
class Logger;
class Slice;
class Status;
class TableFactory;
}  // namespace rocksdb

namespace kvgate::store::file {

rocksdb::Slice ToSlice(std::string_view text);

// `doing` says what was being done, such as "writing 12 records". A full disk gives kIo, retryable;
// damage and missing files give kDataLoss; stalls give kOverloaded, retryable.
Error FromStatus(const rocksdb::Status& status, std::string_view source, std::string_view doing);

// Upper bound of the bytes that a row takes in a write batch beside its key and value, and of those
// of the batch itself. Batches are reserved in full first, because RocksDB fails an assertion if it
// cannot allocate memory for a row.
inline constexpr size_t kBatchRowBytes = 32;

// Sends warnings and errors of RocksDB to KVGATE_LOG, so that it keeps no LOG files of its own.
std::shared_ptr<rocksdb::Logger> MakeRocksLogger(std::string_view part);

// Returns true if an error of FromStatus was caused by a full disk and passes when there is room.
inline bool SaysFull(const Error& error) {
  return error.detail.find("the disk is full") != std::string::npos;
}

// Returns true if a file of 1 MiB can be written beside the database `directory`. RocksDB treats
// disk errors other than a full disk as final, so the database must be reopened. That must not be
// tried before the disk works again, because a database that is closed cannot even be read.
bool IsDiskWell(rocksdb::Env& env, const std::filesystem::path& directory);

// If CURRENT is missing, RocksDB creates a new database and deletes the files of the old one.
// Returns kDataLoss if CURRENT is missing but files with data exist; they stay.
Result<void> CheckNotBeheaded(const std::filesystem::path& directory, std::string_view source);

// As FromStatus, for errors on opening a database: unexpected content is damage. Disk errors stay
// disk errors, though RocksDB reports "invalid argument" if it could not read its options.
Error FromOpenStatus(const rocksdb::Status& status, std::string_view source,
                     std::string_view doing);

// RocksDB throws no exceptions itself, but sizes read from damaged files can make it allocate more
// memory than exists. Such exceptions become a Corruption status instead of ending the process.
rocksdb::Status Fenced(const std::function<rocksdb::Status()>& call);

// Tables with a cache of that size, in the format version that CheckTable understands, even if a
// newer RocksDB would choose another.
std::shared_ptr<rocksdb::TableFactory> MakeTableFactory(uint64_t cache_bytes);

}  // namespace kvgate::store::file
