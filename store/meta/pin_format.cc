#include "store/meta/pin_format.h"

#include <utility>

#include "store/file/byte_codec.h"
#include "store/kv/kv_format.h"

namespace kvgate::store::meta {

using file::AppendText;
using file::AppendValue;

std::string EncodePin(const Pin& pin, const Keyring& ring) {
  std::string body;
  AppendValue(body, pin.model.low);
  AppendValue(body, pin.model.high);
  AppendValue(body, pin.priority);
  AppendValue(body, pin.expires_unix);
  AppendValue(body, pin.created_us);
  AppendText(body, pin.name);
  AppendText(body, pin.version);
  AppendText(body, pin.tenant);
  const auto tokens = std::as_bytes(std::span(pin.tokens));
  AppendText(body, {reinterpret_cast<const char*>(tokens.data()), tokens.size()});
  return file::Seal(file::kPinKind, ring, kv::EncodeKvKey(pin.leaf), body);
}

Result<Pin> DecodePin(std::string_view key, std::string_view value, const Keyring& ring) {
  Pin pin;
  KVGATE_TRY(pin.leaf, kv::DecodeKvKey(key));
  Result<file::UnsealedValue> unsealed = file::Unseal(file::kPinKind, ring, key, value);
  if (!unsealed) return std::move(unsealed).error();
  file::ByteReader reader(unsealed->body);
  pin.model.low = reader.Take<uint64_t>();
  pin.model.high = reader.Take<uint64_t>();
  pin.priority = reader.Take<int32_t>();
  pin.expires_unix = reader.Take<int64_t>();
  pin.created_us = reader.Take<int64_t>();
  pin.name = reader.TakeText();
  pin.version = reader.TakeText();
  pin.tenant = reader.TakeText();
  const std::string tokens = reader.TakeText();
  if (!reader.at_end() || tokens.size() % sizeof(TokenId) != 0) {
    return file::Damaged(file::kPinKind, "its sizes do not add up");
  }
  pin.tokens = kv::DecodeTokens(file::AsBytes(tokens));
  return pin;
}

}  // namespace kvgate::store::meta
