#include "store/file/rocks_table_check.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "store/file/byte_codec.h"

namespace kvgate::store::file {
namespace {

// Footer of format 5: kind of checksum, two handles of two varints each padded to 40 bytes, format
// version, magic number.
constexpr uint64_t kFooterBytes = 53;
constexpr size_t kHandlesAt = 1;
constexpr size_t kHandlesBytes = 40;
constexpr char kChecksumXxh3 = 4;
// Every block is followed by its kind of compression and the checksum of both.
constexpr uint64_t kTrailerBytes = 5;
constexpr uint32_t kLastBytePrime = 0x6b9083d9;
constexpr std::string_view kPropertiesName = "rocksdb.properties";

struct Handle {
  uint64_t offset = 0;
  uint64_t size = 0;
};

Error Damaged(std::string what) {
  return MakeError(ErrorCode::kDataLoss, "store", std::move(what));
}

Result<Handle> TakeHandle(std::string_view& bytes, uint64_t file_bytes) {
  const auto offset = TakeVarint(bytes);
  const auto size = TakeVarint(bytes);
  if (!offset || !size || *offset > file_bytes || *size > file_bytes ||
      *offset + *size + kTrailerBytes > file_bytes) {
    return Damaged("a block that lies outside of its table");
  }
  return Handle{.offset = *offset, .size = *size};
}

// Returns the block's bytes after checking their checksum.
Result<std::string> ReadBlock(const Handle& handle, const ReadTableBytes& read) {
  KVGATE_TRY(std::string bytes, read(handle.offset, handle.size + kTrailerBytes));
  if (bytes.size() != handle.size + kTrailerBytes) return Damaged("a table that is cut short");
  uint32_t stored = 0;
  std::memcpy(&stored, bytes.data() + handle.size + 1, sizeof(stored));
  auto computed = static_cast<uint32_t>(XXH3_64bits(bytes.data(), handle.size));
  computed ^= uint32_t{static_cast<uint8_t>(bytes[handle.size])} * kLastBytePrime;
  if (stored != computed) return Damaged("a table's metadata fails its checksum");
  bytes.resize(handle.size);
  return bytes;
}

// A row consists of: size shared with the previous key, size of the rest of the key, size of the
// value, rest of the key, value.
Result<std::optional<Handle>> FindBlock(std::string_view block, std::string_view name,
                                        uint64_t file_bytes) {
  uint32_t num_restarts = 0;
  if (block.size() < sizeof(num_restarts)) return Damaged("a table's metadata is too short");
  std::memcpy(&num_restarts, block.data() + block.size() - sizeof(num_restarts),
              sizeof(num_restarts));
  const uint64_t tail = (uint64_t{num_restarts} + 1) * sizeof(uint32_t);
  if (tail > block.size()) return Damaged("a table's metadata is too short");
  block.remove_suffix(tail);
  std::string key;
  while (!block.empty()) {
    const auto shared = TakeVarint(block);
    const auto unshared = TakeVarint(block);
    const auto value_bytes = TakeVarint(block);
    if (!shared || !unshared || !value_bytes || *shared > key.size() || *unshared > block.size() ||
        *value_bytes > block.size() - *unshared) {
      return Damaged("a table's metadata is no list of blocks");
    }
    key.resize(*shared);
    key += block.substr(0, *unshared);
    std::string_view value = block.substr(*unshared, *value_bytes);
    block.remove_prefix(*unshared + *value_bytes);
    if (key != name) continue;
    KVGATE_TRY(const Handle found, TakeHandle(value, file_bytes));
    return std::optional(found);
  }
  return std::optional<Handle>();
}

}  // namespace

Result<void> CheckTable(uint64_t file_bytes, const ReadTableBytes& read) {
  if (file_bytes < kFooterBytes) return Damaged("shorter than a table's footer");
  KVGATE_TRY(const std::string footer, read(file_bytes - kFooterBytes, kFooterBytes));
  if (footer.size() != kFooterBytes) return Damaged("a table that is cut short");
  if (footer[0] != kChecksumXxh3) return Damaged("a table with checksums of another kind");
  std::string_view handles = std::string_view(footer).substr(kHandlesAt, kHandlesBytes);
  KVGATE_TRY(const Handle metadata, TakeHandle(handles, file_bytes));
  KVGATE_TRY([[maybe_unused]] const Handle index, TakeHandle(handles, file_bytes));
  KVGATE_TRY(const std::string block, ReadBlock(metadata, read));
  KVGATE_TRY(const auto properties, FindBlock(block, kPropertiesName, file_bytes));
  if (!properties) return Damaged("a table without properties");
  KVGATE_TRY([[maybe_unused]] const std::string proved, ReadBlock(*properties, read));
  return {};
}

}  // namespace kvgate::store::file
