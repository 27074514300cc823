#include "gateway/runtime/sharing/shared_pin.h"

#include <optional>
#include <utility>

#include "store/file/byte_codec.h"

namespace kvgate::runtime::sharing {

using store::file::AppendText;
using store::file::AppendValue;
using store::file::ByteReader;

namespace {

constexpr std::string_view kSource = "sharing.pins";
constexpr uint8_t kVersion = 1;
constexpr uint8_t kPinned = 1;
constexpr uint8_t kRemoved = 2;
constexpr size_t kPrefixBytes = 32;

struct Head {
  uint8_t kind = 0;
  int64_t changed_us = 0;
  const std::string& prefix;
};

std::string Encode(const Head& head) {
  std::string bytes;
  AppendValue(bytes, kVersion);
  AppendValue(bytes, head.kind);
  AppendValue(bytes, head.changed_us);
  bytes += head.prefix;
  return bytes;
}

Error Damaged() { return MakeError(ErrorCode::kDataLoss, kSource, "a shared pin is cut short"); }

// Tokens are varints, which take half of their size in memory.
Result<std::vector<TokenId>> ReadTokens(std::string_view bytes) {
  const std::optional<uint64_t> count = store::file::TakeVarint(bytes);
  if (!count || *count == 0 || *count > store::meta::kPinTokensMax) {
    return Damaged();
  }
  std::vector<TokenId> tokens;
  for (uint64_t i = 0; i < *count; ++i) {
    const std::optional<uint64_t> token = store::file::TakeVarint(bytes);
    if (!token || *token > INT32_MAX) return Damaged();
    tokens.push_back(static_cast<TokenId>(*token));
  }
  if (!bytes.empty()) return Damaged();
  return tokens;
}

}  // namespace

std::string EncodeSharedPin(const std::string& prefix, const store::meta::Pin& pin) {
  std::string bytes = Encode({.kind = kPinned, .changed_us = pin.created_us, .prefix = prefix});
  for (const Fingerprint& print : {pin.model, pin.leaf.fingerprint}) {
    AppendValue(bytes, print.low);
    AppendValue(bytes, print.high);
  }
  AppendValue(bytes, pin.priority);
  AppendValue(bytes, pin.expires_unix);
  AppendText(bytes, pin.name);
  AppendText(bytes, pin.version);
  std::string tokens;
  store::file::AppendVarint(tokens, pin.tokens.size());
  for (const TokenId token : pin.tokens) {
    store::file::AppendVarint(tokens, static_cast<uint32_t>(token));
  }
  AppendText(bytes, tokens);
  return bytes;
}

std::string EncodeSharedPin(const store::meta::RemovedPin& removed) {
  return Encode({.kind = kRemoved, .changed_us = removed.removed_us, .prefix = removed.prefix});
}

Result<SharedPin> DecodeSharedPin(std::string_view bytes) {
  ByteReader reader(bytes);
  if (reader.Take<uint8_t>() != kVersion) {
    if (!reader.ok()) return Damaged();
    return MakeError(ErrorCode::kUnsupported, kSource, "a shared pin of a newer version");
  }
  SharedPin shared;
  const auto kind = reader.Take<uint8_t>();
  shared.is_removed = kind == kRemoved;
  shared.changed_us = reader.Take<int64_t>();
  shared.prefix = reader.TakeBytes(kPrefixBytes);
  if (!reader.ok() || (kind != kPinned && kind != kRemoved)) return Damaged();
  store::meta::Pin& pin = shared.pin;
  pin.created_us = shared.changed_us;
  if (shared.is_removed) return reader.at_end() ? Result<SharedPin>(std::move(shared)) : Damaged();
  for (Fingerprint* print : {&pin.model, &pin.leaf.fingerprint}) {
    print->low = reader.Take<uint64_t>();
    print->high = reader.Take<uint64_t>();
  }
  pin.priority = reader.Take<int32_t>();
  pin.expires_unix = reader.Take<int64_t>();
  pin.name = reader.TakeText();
  pin.version = reader.TakeText();
  const std::string tokens = reader.TakeText();
  if (!reader.at_end()) return Damaged();
  KVGATE_TRY(pin.tokens, ReadTokens(tokens));
  return shared;
}

}  // namespace kvgate::runtime::sharing
