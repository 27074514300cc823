// What the formats of this folder share: values appended to a string and taken from one, in the
// byte order of the machine, which FORMAT.md says is little-endian. Header-only; pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvgate::store {

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <typename T>
void AppendValue(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// text = size:u32 bytes[size]
inline void AppendText(std::string& out, std::string_view text) {
  AppendValue(out, static_cast<uint32_t>(text.size()));
  out += text;
}

// Keys sort by it.
inline void AppendBigEndian(std::string& out, uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

// Takes values from the front; once something is missing it gives nothing and says so.
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

// From the front of `bytes`, seven bits a byte, the low ones first. Nothing: it has no end there.
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

}  // namespace kvgate::store
