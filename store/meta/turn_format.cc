#include "store/meta/turn_format.h"

#include <algorithm>
#include <utility>

#include "store/file/byte_codec.h"

namespace kvgate::store::meta {

using file::AppendValue;
using file::ByteReader;
using file::kTurnKind;

namespace {

std::string Key(char kind, const TurnName& tenant) {
  std::string key(1, kind);
  AppendValue(key, tenant);
  return key;
}

std::string Key(char kind, const TurnName& tenant, const TurnName& name) {
  std::string key = Key(kind, tenant);
  AppendValue(key, name);
  return key;
}

void AppendDigest(std::string& out, const std::optional<PrefixDigest>& digest) {
  const PrefixDigest bytes = digest.value_or(PrefixDigest());
  AppendValue(out, uint8_t{digest.has_value()});
  AppendValue(out, bytes.bytes);
}

std::optional<PrefixDigest> TakeDigest(ByteReader& reader) {
  const bool there = reader.Take<uint8_t>() != 0;
  const PrefixDigest digest{.bytes = reader.Take<decltype(PrefixDigest::bytes)>()};
  return there ? std::optional(digest) : std::nullopt;
}

void AppendName(std::string& out, const std::optional<TurnName>& name) {
  AppendValue(out, uint8_t{name.has_value()});
  AppendValue(out, name.value_or(TurnName()));
}

std::optional<TurnName> TakeName(ByteReader& reader) {
  const bool there = reader.Take<uint8_t>() != 0;
  const auto name = reader.Take<TurnName>();
  return there ? std::optional(name) : std::nullopt;
}

}  // namespace

std::string TurnKey(uint64_t order) { return WithOrder("t", order); }

std::string TurnIdPrefix(const TurnName& tenant) { return Key('I', tenant); }

std::string TurnIdKey(const TurnName& tenant, const TurnName& id) { return Key('I', tenant, id); }

std::string TurnSessionPrefix(const TurnName& tenant, const TurnName& session) {
  return Key('S', tenant, session);
}

std::string TurnContentPrefix(const TurnName& tenant, const TurnName& content) {
  return Key('C', tenant, content);
}

std::string TurnMemberPrefix(uint64_t conversation) { return WithOrder("M", conversation); }

std::string TurnConversationKey(uint64_t conversation) { return WithOrder("v", conversation); }

std::string TurnAgeKey(uint64_t last_order) { return WithOrder("o", last_order); }

std::string WithOrder(std::string prefix, uint64_t order) {
  file::AppendBigEndian(prefix, order);
  return prefix;
}

uint64_t OrderOf(std::string_view key) {
  if (key.size() < 8) return 0;
  return ByteReader(key.substr(key.size() - 8)).TakeBigEndian();
}

std::optional<TurnPlace> PlaceOf(std::string_view key, std::string_view value) {
  if (!key.starts_with('M')) return DecodePlace(value);
  const size_t prefix_bytes = TurnMemberPrefix(0).size();
  if (key.size() <= prefix_bytes) return std::nullopt;
  return TurnPlace{.order = OrderOf(key), .conversation = OrderOf(key.substr(0, prefix_bytes))};
}

std::string EncodeTurn(const TurnRecord& record, const Keyring& ring) {
  const Turn& turn = record.turn;
  std::string body;
  AppendValue(body, record.parent_order);
  AppendValue(body, record.conversation);
  AppendValue(body, turn.created_us);
  AppendValue(body, turn.tokens.input);
  AppendValue(body, turn.tokens.cached);
  AppendValue(body, turn.tokens.output);
  AppendDigest(body, turn.content);
  for (const std::string* text : {&turn.id, &turn.parent, &turn.tenant, &turn.session}) {
    file::AppendText(body, *text);
  }
  AppendValue(body, static_cast<uint32_t>(turn.items.size()));
  for (const TurnItem& item : turn.items) {
    file::AppendText(body, item.role);
    file::AppendText(body, item.payload);
  }
  return file::Seal(kTurnKind, ring, TurnKey(turn.order), body);
}

Result<DecodedTurn> DecodeTurn(std::string_view key, std::string_view value, const Keyring& ring) {
  KVGATE_TRY(const file::UnsealedValue unsealed, file::Unseal(kTurnKind, ring, key, value));
  ByteReader reader(unsealed.body);
  DecodedTurn decoded{.record = {}, .was_clear = unsealed.was_clear};
  TurnRecord& record = decoded.record;
  Turn& turn = record.turn;
  turn.order = OrderOf(key);
  record.parent_order = reader.Take<uint64_t>();
  record.conversation = reader.Take<uint64_t>();
  turn.created_us = reader.Take<int64_t>();
  turn.tokens.input = reader.Take<int64_t>();
  turn.tokens.cached = reader.Take<int64_t>();
  turn.tokens.output = reader.Take<int64_t>();
  turn.content = TakeDigest(reader);
  for (std::string* text : {&turn.id, &turn.parent, &turn.tenant, &turn.session}) {
    *text = reader.TakeText();
  }
  const auto num_items = reader.Take<uint32_t>();
  for (uint32_t i = 0; i < num_items && reader.ok(); ++i) {
    TurnItem item{.role = reader.TakeText(), .payload = reader.TakeText()};
    turn.items.push_back(std::move(item));
  }
  if (!reader.at_end()) return file::Damaged(kTurnKind, "its sizes do not add up");
  // Parents that are always older make every chain finite.
  if (record.parent_order >= turn.order) return file::Damaged(kTurnKind, "its parent is not older");
  return decoded;
}

TurnMember MemberOf(const Turn& turn, const TurnNames& names, uint64_t bytes) {
  TurnMember member{.tenant = names.Tenant(turn.tenant),
                    .id = names.Id(turn.tenant, turn.id),
                    .session = {},
                    .content = {},
                    .bytes = bytes};
  if (!turn.session.empty()) member.session = names.Session(turn.tenant, turn.session);
  if (turn.content) member.content = names.Content(turn.tenant, *turn.content);
  return member;
}

std::string EncodePlace(const TurnPlace& place) {
  std::string out;
  AppendValue(out, place.order);
  AppendValue(out, place.conversation);
  return out;
}

std::optional<TurnPlace> DecodePlace(std::string_view value) {
  ByteReader reader(value);
  const TurnPlace place{.order = reader.Take<uint64_t>(), .conversation = reader.Take<uint64_t>()};
  return reader.at_end() ? std::optional(place) : std::nullopt;
}

std::string EncodeMember(const TurnMember& member) {
  std::string out;
  AppendValue(out, member.tenant);
  AppendValue(out, member.id);
  AppendName(out, member.session);
  AppendName(out, member.content);
  AppendValue(out, member.bytes);
  return out;
}

std::optional<TurnMember> DecodeMember(std::string_view value) {
  ByteReader reader(value);
  TurnMember member;
  member.tenant = reader.Take<TurnName>();
  member.id = reader.Take<TurnName>();
  member.session = TakeName(reader);
  member.content = TakeName(reader);
  member.bytes = reader.Take<uint64_t>();
  return reader.at_end() ? std::optional(member) : std::nullopt;
}

std::string EncodeConversation(const TurnConversation& conversation) {
  std::string out;
  AppendValue(out, conversation.last_order);
  AppendValue(out, conversation.last_us);
  AppendValue(out, conversation.bytes);
  AppendValue(out, conversation.num_turns);
  return out;
}

std::optional<TurnConversation> DecodeConversation(std::string_view value) {
  ByteReader reader(value);
  TurnConversation conversation;
  conversation.last_order = reader.Take<uint64_t>();
  conversation.last_us = reader.Take<int64_t>();
  conversation.bytes = reader.Take<uint64_t>();
  conversation.num_turns = reader.Take<uint64_t>();
  return reader.at_end() ? std::optional(conversation) : std::nullopt;
}

std::string EncodeTotals(const TurnTotals& totals) {
  std::string out;
  AppendValue(out, totals.next_order);
  AppendValue(out, totals.num_turns);
  AppendValue(out, totals.num_conversations);
  AppendValue(out, totals.bytes);
  return out;
}

std::optional<TurnTotals> DecodeTotals(std::string_view value) {
  ByteReader reader(value);
  TurnTotals totals;
  totals.next_order = reader.Take<uint64_t>();
  totals.num_turns = reader.Take<uint64_t>();
  totals.num_conversations = reader.Take<uint64_t>();
  totals.bytes = reader.Take<uint64_t>();
  return reader.at_end() ? std::optional(totals) : std::nullopt;
}

std::string EncodeAge(const TurnAge& age) {
  std::string out;
  AppendValue(out, age.conversation);
  AppendValue(out, age.last_us);
  return out;
}

std::optional<TurnAge> DecodeAge(std::string_view value) {
  ByteReader reader(value);
  const TurnAge age{.conversation = reader.Take<uint64_t>(), .last_us = reader.Take<int64_t>()};
  return reader.at_end() ? std::optional(age) : std::nullopt;
}

}  // namespace kvgate::store::meta
