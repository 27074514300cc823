#include "gateway/session/log/shared_entry.h"

#include <utility>

#include "store/file/byte_codec.h"

namespace kvgate::session::log {
namespace {

using store::file::AppendText;
using store::file::AppendValue;
using store::meta::Turn;

constexpr uint8_t kVersion = 1;
constexpr uint32_t kItemsMax = 100'000;

void AppendTurn(std::string& out, const Turn& turn) {
  AppendText(out, turn.parent);
  AppendText(out, turn.session);
  AppendValue(out, turn.created_us);
  AppendValue(out, turn.tokens.input);
  AppendValue(out, turn.tokens.cached);
  AppendValue(out, turn.tokens.output);
  AppendValue(out, static_cast<uint8_t>(turn.content ? 1 : 0));
  if (turn.content) AppendValue(out, turn.content->bytes);
  AppendValue(out, static_cast<uint32_t>(turn.items.size()));
  for (const store::meta::TurnItem& item : turn.items) {
    AppendText(out, item.role);
    AppendText(out, item.payload);
  }
}

// Returns false if there are more items than a turn has.
bool TakeTurn(store::file::ByteReader& reader, Turn& turn) {
  turn.parent = reader.TakeText();
  turn.session = reader.TakeText();
  turn.created_us = reader.Take<int64_t>();
  turn.tokens.input = reader.Take<int64_t>();
  turn.tokens.cached = reader.Take<int64_t>();
  turn.tokens.output = reader.Take<int64_t>();
  if (reader.Take<uint8_t>() != 0) {
    turn.content.emplace().bytes = reader.Take<decltype(PrefixDigest::bytes)>();
  }
  const auto num_items = reader.Take<uint32_t>();
  if (num_items > kItemsMax) return false;
  for (uint32_t i = 0; i < num_items && reader.ok(); ++i) {
    std::string role = reader.TakeText();
    turn.items.push_back({.role = std::move(role), .payload = reader.TakeText()});
  }
  return true;
}

}  // namespace

std::string EncodeSharedEntry(const SharedEntry& entry) {
  std::string out;
  AppendValue(out, kVersion);
  AppendValue(out, static_cast<uint8_t>(entry.kind));
  AppendText(out, entry.turn.id);
  if (entry.kind == SharedEntry::Kind::kTurn) AppendTurn(out, entry.turn);
  return out;
}

std::optional<SharedEntry> DecodeSharedEntry(std::string_view bytes, std::string_view tenant) {
  store::file::ByteReader reader(bytes);
  if (reader.Take<uint8_t>() != kVersion) return std::nullopt;
  const auto kind = reader.Take<uint8_t>();
  if (kind < 1 || kind > 3) return std::nullopt;
  SharedEntry entry{.kind = static_cast<SharedEntry::Kind>(kind)};
  entry.turn.id = reader.TakeText();
  entry.turn.tenant = tenant;
  if (entry.kind == SharedEntry::Kind::kTurn && !TakeTurn(reader, entry.turn)) return std::nullopt;
  return reader.at_end() ? std::optional(std::move(entry)) : std::nullopt;
}

}  // namespace kvgate::session::log
