// The byte format of conversation turns and their index rows, as specified in store/FORMAT.md. It
// knows no database. Pure functions; safe on any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/seal.h"
#include "store/file/sealed_kinds.h"
#include "store/meta/turn_names.h"

namespace kvgate::store::meta {

// A part of a turn: its role, and its JSON in the dialect in which it arrived, which stays opaque.
struct TurnItem {
  std::string role;  // "user", "assistant", "tool", …
  std::string payload;
  friend bool operator==(const TurnItem&, const TurnItem&) = default;
};

struct TurnTokens {
  int64_t input = 0;   // includes cached
  int64_t cached = 0;  // part of input
  int64_t output = 0;
  friend bool operator==(const TurnTokens&, const TurnTokens&) = default;
};

struct Turn {
  std::string id;       // given by the caller, unique in its tenant: "resp_…"
  std::string parent;   // id of the preceding turn; empty for the first of a conversation
  std::string tenant;   // may be empty, for callers without a credential
  std::string session;  // key of the session that lists it; may be empty
  std::vector<TurnItem> items;
  TurnTokens tokens;
  // SHA-256 of the turn's content in the form that the caller compares. It finds the turn again
  // from what an agent sends back of it. Absent means that it cannot be found this way.
  std::optional<PrefixDigest> content;
  // The store sets these two, the latter only if it is 0.
  uint64_t order = 0;      // increases from turn to turn over all tenants; never reused
  int64_t created_us = 0;  // microseconds since 1970
  friend bool operator==(const Turn&, const Turn&) = default;
};

// The content of a turn's record: the turn and its position in the tree.
struct TurnRecord {
  Turn turn;
  uint64_t parent_order = 0;  // 0 means none
  uint64_t conversation = 0;  // the order of its first turn
};

// The location of a turn; the value of the rows that point to it.
struct TurnPlace {
  uint64_t order = 0;
  uint64_t conversation = 0;
};

// The index entry of a turn: enough to delete all its rows without reading its record.
struct TurnMember {
  TurnName tenant{};
  TurnName id{};
  std::optional<TurnName> session;
  std::optional<TurnName> content;
  uint64_t bytes = 0;  // size of its record, key and value
  friend bool operator==(const TurnMember&, const TurnMember&) = default;
};

// The state of one conversation.
struct TurnConversation {
  uint64_t last_order = 0;
  int64_t last_us = 0;
  uint64_t bytes = 0;
  uint64_t num_turns = 0;
};

// The value of the row that queues a conversation for retirement.
struct TurnAge {
  uint64_t conversation = 0;
  int64_t last_us = 0;
};

// Totals over everything stored.
struct TurnTotals {
  uint64_t next_order = 1;
  uint64_t num_turns = 0;
  uint64_t num_conversations = 0;
  uint64_t bytes = 0;
};

// Keys of the table. All names have the same size, so that none is a prefix of another.
std::string TurnKey(uint64_t order);
std::string TurnIdPrefix(const TurnName& tenant);
std::string TurnIdKey(const TurnName& tenant, const TurnName& id);
std::string TurnSessionPrefix(const TurnName& tenant, const TurnName& session);
std::string TurnContentPrefix(const TurnName& tenant, const TurnName& content);
std::string TurnMemberPrefix(uint64_t conversation);
std::string TurnConversationKey(uint64_t conversation);
std::string TurnAgeKey(uint64_t last_order);
// Appends the order to `prefix`. OrderOf returns the order at the end of a key, 0 if there is none.
std::string WithOrder(std::string prefix, uint64_t order);
uint64_t OrderOf(std::string_view key);
// The turn that a row points to: a member of a conversation by its key, all others by their value.
// Null if it points to none.
std::optional<TurnPlace> PlaceOf(std::string_view key, std::string_view value);

std::string EncodeTurn(const TurnRecord& record, const Keyring& ring);
// Returns the errors of Unseal, and kDataLoss if the sizes in the record do not add up.
struct DecodedTurn {
  TurnRecord record;
  bool was_clear = false;
};
Result<DecodedTurn> DecodeTurn(std::string_view key, std::string_view value, const Keyring& ring);
TurnMember MemberOf(const Turn& turn, const TurnNames& names, uint64_t bytes);

// Codecs of the other rows. Decoding returns null if the value is not of that kind.
std::string EncodePlace(const TurnPlace& place);
std::optional<TurnPlace> DecodePlace(std::string_view value);
std::string EncodeMember(const TurnMember& member);
std::optional<TurnMember> DecodeMember(std::string_view value);
std::string EncodeConversation(const TurnConversation& conversation);
std::optional<TurnConversation> DecodeConversation(std::string_view value);
std::string EncodeTotals(const TurnTotals& totals);
std::optional<TurnTotals> DecodeTotals(std::string_view value);
std::string EncodeAge(const TurnAge& age);
std::optional<TurnAge> DecodeAge(std::string_view value);

// The key of the row that EncodeTotals makes.
inline constexpr std::string_view kTotalsKey = "n";

// Subtracts a part from a total, which becomes zero if it is the smaller one.
inline uint64_t Less(uint64_t value, uint64_t part) { return value - std::min(value, part); }

}  // namespace kvgate::store::meta
