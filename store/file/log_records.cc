#include "store/file/log_records.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace kvgate::store::file {
namespace {

constexpr size_t kBlockBytes = 32 << 10;
constexpr size_t kHeaderBytes = 7;  // checksum:u32 size:u16 type:u8
enum Type : uint8_t { kRoom = 0, kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78U : 0U);  // CRC-32C, reflected
    }
    table[i] = value;
  }
  return table;
}

// The checksum of type and payload, which are adjacent, masked as RocksDB stores it.
uint32_t Checksum(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff] ^ (crc >> 8);
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

// Joins the fragments of records.
class Reader {
 public:
  // Reads one block, and counts the bytes that could not be read.
  void ReadBlock(std::string_view block) {
    while (block.size() >= kHeaderBytes) {
      uint32_t checksum = 0;
      uint16_t size = 0;
      std::memcpy(&checksum, block.data(), sizeof(checksum));
      std::memcpy(&size, block.data() + 4, sizeof(size));
      const auto type = static_cast<uint8_t>(block[6]);
      if (type == kRoom && size == 0) return Break(IsZero(block) ? 0 : block.size());
      const bool whole = kHeaderBytes + size <= block.size() &&
                         Checksum(block.substr(6, size_t{1} + size)) == checksum;
      if (!whole) return Break(block.size());
      Take(type, block.substr(kHeaderBytes, size));
      block.remove_prefix(kHeaderBytes + size);
    }
  }
  LogRecords Finish() && {
    Break(0);
    return std::move(read_);
  }

 private:
  static bool IsZero(std::string_view bytes) {
    return std::ranges::all_of(bytes, [](char byte) { return byte == '\0'; });
  }
  void Break(size_t num_bytes) {
    read_.num_bytes_skipped += num_bytes + record_.size();
    record_.clear();
    in_record_ = false;
  }
  void Take(uint8_t type, std::string_view part) {
    const bool begins = type == kFull || type == kFirst;
    if (begins == in_record_ || type > kLast) {
      Break(begins ? 0 : part.size());
      if (!begins) return;
    }
    record_ += part;
    in_record_ = true;
    if (type != kFull && type != kLast) return;
    read_.records.push_back(std::move(record_));
    record_.clear();
    in_record_ = false;
  }

  LogRecords read_;
  std::string record_;
  bool in_record_ = false;
};

}  // namespace

LogRecords ReadLogRecords(std::string_view file) {
  Reader reader;
  while (!file.empty()) {
    reader.ReadBlock(file.substr(0, kBlockBytes));
    file.remove_prefix(std::min(kBlockBytes, file.size()));
  }
  return std::move(reader).Finish();
}

std::string WriteLogRecords(std::span<const std::string> records) {
  std::string file;
  for (const std::string& record : records) {
    std::string_view left = record;
    for (bool begins = true; begins || !left.empty(); begins = false) {
      size_t room = kBlockBytes - file.size() % kBlockBytes;
      if (room < kHeaderBytes) {
        file.append(room, '\0');
        room = kBlockBytes;
      }
      const std::string_view part = left.substr(0, room - kHeaderBytes);
      left.remove_prefix(part.size());
      const bool ends = left.empty();
      std::string bytes(
          1, static_cast<char>(begins ? (ends ? kFull : kFirst) : (ends ? kLast : kMiddle)));
      bytes += part;
      const uint32_t checksum = Checksum(bytes);
      const auto size = static_cast<uint16_t>(part.size());
      file.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum));
      file.append(reinterpret_cast<const char*>(&size), sizeof(size));
      file += bytes;
    }
  }
  return file;
}

}  // namespace kvgate::store::file
