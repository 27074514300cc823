// What RocksDB does not verify of a table before it looks inside: the footer, which has no checksum
// (its numbers become sizes of memory), and the block of properties, which it parses first and
// verifies afterwards, and whose parsing asserts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <kvgate/result.h>

namespace kvgate::store {

// `size` bytes of the table from `offset`; fewer at its end.
using ReadTableBytes = std::function<Result<std::string>(uint64_t offset, uint64_t size)>;

// kDataLoss: a footer that points outside of the file, or a block of its metadata whose checksum
// does not match; other errors are read's. Source of the format: RocksDB 7.8, table/format.cc.
Result<void> CheckTable(uint64_t file_bytes, const ReadTableBytes& read);

}  // namespace kvgate::store
