// Checks those parts of a table that RocksDB uses before it verifies them: the footer, which has no
// checksum and whose numbers become allocation sizes, and the properties block, which RocksDB
// parses before it checks the checksum and whose parser fails assertions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace kvgate::store::file {

// Returns `size` bytes of the table from `offset`; fewer at its end.
using ReadTableBytes = std::function<Result<std::string>(uint64_t offset, uint64_t size)>;

// Returns kDataLoss if the footer points outside of the file or a metadata block fails its
// checksum; other errors come from `read`. Source of the format: RocksDB 7.8, table/format.cc.
Result<void> CheckTable(uint64_t file_bytes, const ReadTableBytes& read);

}  // namespace kvgate::store::file
