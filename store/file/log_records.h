// Reads and writes the records of a file in the format of RocksDB's logs, which its MANIFEST
// shares. It is used for files on which RocksDB itself would fail an assertion instead of returning
// an error. Pure functions. Source of the format: RocksDB 7.8, db/log_format.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::store::file {

struct LogRecords {
  std::vector<std::string> records;
  uint64_t num_bytes_skipped = 0;  // damaged, or part of a record with another part damaged
};

// As in RocksDB, damage costs the rest of its block of 32 KiB.
LogRecords ReadLogRecords(std::string_view file);
std::string WriteLogRecords(std::span<const std::string> records);

}  // namespace kvgate::store::file
