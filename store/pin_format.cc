#include "store/pin_format.h"

#include <fmt/format.h>

#include <kvgate/digest.h>

#include "store/byte_codec.h"
#include "store/kv_format.h"

namespace kvgate::store {
namespace {

constexpr uint32_t kMagic = 0x4e50564b;  // "KVPN"
constexpr uint16_t kVersion = 1;
constexpr size_t kChecksumBytes = 8;

// Covers the key too: a value that strayed under another key is found out.
uint64_t Checksum(std::string_view key, std::string_view body) {
  return Xxh3(AsBytes(body), Xxh3(AsBytes(key)).first).first;
}

Error Damaged(std::string_view what) {
  return MakeError(ErrorCode::kDataLoss, "store.pins", fmt::format("a pin: {}", what));
}

}  // namespace

std::string EncodePin(const Pin& pin) {
  std::string body;
  AppendValue(body, kMagic);
  AppendValue(body, kVersion);
  AppendValue(body, uint16_t{0});
  AppendValue(body, pin.model.low);
  AppendValue(body, pin.model.high);
  AppendValue(body, pin.priority);
  AppendValue(body, pin.expires_unix);
  AppendValue(body, pin.created_us);
  AppendText(body, pin.name);
  AppendText(body, pin.version);
  AppendText(body, pin.salt);
  const auto tokens = std::as_bytes(std::span(pin.tokens));
  AppendText(body, {reinterpret_cast<const char*>(tokens.data()), tokens.size()});
  std::string out;
  AppendValue(out, Checksum(EncodeKvKey(pin.leaf), body));
  return out + body;
}

Result<Pin> DecodePin(std::string_view key, std::string_view value) {
  Pin pin;
  KVGATE_TRY(pin.leaf, DecodeKvKey(key));
  if (value.size() < kChecksumBytes) return Damaged("it is cut short");
  ByteReader reader(value);
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
