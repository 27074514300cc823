// Helpers that all formats of the store share: values are appended to a string and taken from one
// in the byte order of the machine, which FORMAT.md says is little-endian. Header-only; pure
// functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvgate::store::file {

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <typename T>
void AppendValue(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// For formats whose values are at fixed offsets. REQUIRES: the value lies within the bytes.
template <typename T>
void StoreValue(char* bytes, size_t at, const T& value) {
  std::memcpy(bytes + at, &value, sizeof(value));
}

template <typename T>
T LoadValue(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// text = size:u32 bytes[size]
inline void AppendText(std::string& out, std::string_view text) {
  AppendValue(out, static_cast<uint32_t>(text.size()));
  out += text;
}

// Big-endian, so that keys sort by the value.
inline void AppendBigEndian(std::string& out, uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

// Takes values from the front. Once too few bytes are left, it returns zero values and ok() is
// false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Take() {
    T value{};
    const std::string_view part = TakeBytes(sizeof(T));
    if (ok_) std::memcpy(&value, part.data(), sizeof(T));
    return value;
  }
  uint64_t TakeBigEndian() {
    uint64_t value = 0;
    for (const char c : TakeBytes(8)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  std::string_view TakeBytes(size_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    const std::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return part;
  }
  std::string TakeText() { return std::string(TakeBytes(Take<uint32_t>())); }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

// Appends a varint: seven bits per byte, low bits first.
inline void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Takes a varint from the front of `bytes`. Returns null if it does not end within `bytes`.
inline std::optional<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7fU} << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  return std::nullopt;
}

// text = size:varint bytes[size]
inline void AppendVarText(std::string& out, std::string_view text) {
  AppendVarint(out, text.size());
  out += text;
}

// Takes what AppendVarText appended. Returns null if it does not end within `bytes`.
inline std::optional<std::string_view> TakeVarText(std::string_view& bytes) {
  const std::optional<uint64_t> size = TakeVarint(bytes);
  if (!size || *size > bytes.size()) return std::nullopt;
  const std::string_view text = bytes.substr(0, *size);
  bytes.remove_prefix(*size);
  return text;
}

}  // namespace kvgate::store::file
