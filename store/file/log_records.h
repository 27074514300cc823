// The records of a file in the format of RocksDB's logs, which is also that of its MANIFEST. For
// what RocksDB itself would assert rather than refuse: whoever reads here decides what it gets.
// Pure. Source of the format: RocksDB 7.8, db/log_format.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::store {

struct LogRecords {
  std::vector<std::string> records;
  uint64_t num_bytes_skipped = 0;  // damaged, or of a record whose other parts are
};

// What is damaged costs what follows in its 32 KiB, as it does RocksDB.
LogRecords ReadLogRecords(std::string_view file);
std::string WriteLogRecords(std::span<const std::string> records);

}  // namespace kvgate::store
