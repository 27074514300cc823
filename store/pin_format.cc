#include "store/pin_format.h"

#include <fmt/format.h>

#include <cstring>

#include <kvgate/digest.h>

#include "store/kv_format.h"

namespace kvgate::store {
namespace {

constexpr uint32_t kMagic = 0x4e50564b;  // "KVPN"
constexpr uint16_t kVersion = 1;
constexpr size_t kChecksumBytes = 8;

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Covers the key too: a value that strayed under another key is found out.
uint64_t Checksum(std::string_view key, std::string_view body) {
  return Xxh3(AsBytes(body), Xxh3(AsBytes(key)).first).first;
}

template <typename T>
void Append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendText(std::string& out, std::string_view text) {
  Append(out, static_cast<uint32_t>(text.size()));
  out += text;
}

// Takes values from the front; once something is missing it gives nothing and says so.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Take() {
    T value{};
    const std::string_view part = TakeBytes(sizeof(T));
    if (ok_) std::memcpy(&value, part.data(), sizeof(T));
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

Error Damaged(std::string_view what) {
  return MakeError(ErrorCode::kDataLoss, "store.pins", fmt::format("a pin: {}", what));
}

}  // namespace

std::string EncodePin(const Pin& pin) {
  std::string body;
  Append(body, kMagic);
  Append(body, kVersion);
  Append(body, uint16_t{0});
  Append(body, pin.model.low);
  Append(body, pin.model.high);
  Append(body, pin.priority);
  Append(body, pin.expires_unix);
  Append(body, pin.created_us);
  AppendText(body, pin.name);
  AppendText(body, pin.version);
  AppendText(body, pin.salt);
  const auto tokens = std::as_bytes(std::span(pin.tokens));
  AppendText(body, {reinterpret_cast<const char*>(tokens.data()), tokens.size()});
  std::string out;
  Append(out, Checksum(EncodeKvKey(pin.leaf), body));
  return out + body;
}

Result<Pin> DecodePin(std::string_view key, std::string_view value) {
  Pin pin;
  KVGATE_TRY(pin.leaf, DecodeKvKey(key));
  if (value.size() < kChecksumBytes) return Damaged("it is cut short");
  Reader reader(value);
  const auto checksum = reader.Take<uint64_t>();
  if (checksum != Checksum(key, value.substr(kChecksumBytes))) {
    return Damaged("its checksum does not match");
  }
  const auto magic = reader.Take<uint32_t>();
  const auto version = reader.Take<uint16_t>();
  if (magic != kMagic || version != kVersion) {
    return Damaged(fmt::format("version {}, not {}", version, kVersion));
  }
  reader.Take<uint16_t>();
  pin.model.low = reader.Take<uint64_t>();
  pin.model.high = reader.Take<uint64_t>();
  pin.priority = reader.Take<int32_t>();
  pin.expires_unix = reader.Take<int64_t>();
  pin.created_us = reader.Take<int64_t>();
  pin.name = reader.TakeText();
  pin.version = reader.TakeText();
  pin.salt = reader.TakeText();
  const std::string tokens = reader.TakeText();
  if (!reader.at_end() || tokens.size() % sizeof(TokenId) != 0) {
    return Damaged("its sizes do not add up");
  }
  pin.tokens = DecodeTokens(AsBytes(tokens));
  return pin;
}

}  // namespace kvgate::store
