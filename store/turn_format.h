// The bytes of a conversation turn and of its index rows, as written down in store/FORMAT.md.
// It knows no database. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>
#include "base/seal.h"

#include "store/sealed_kinds.h"
#include "store/turn_names.h"

namespace kvgate::store {

// A part of a turn: who said it, and its JSON in the dialect it came in, which nobody here reads.
struct TurnItem {
  std::string role;  // "user", "assistant", "tool", …
  std::string payload;
  friend bool operator==(const TurnItem&, const TurnItem&) = default;
};

struct TurnTokens {
  int64_t input = 0;   // cached ones included
  int64_t cached = 0;  // of them
  int64_t output = 0;
  friend bool operator==(const TurnTokens&, const TurnTokens&) = default;
};

struct Turn {
  std::string id;       // the caller's, unique in its tenant: "resp_…"
  std::string parent;   // id of the turn before it; empty: it begins a conversation
  std::string tenant;   // may be empty: callers without a credential
  std::string session;  // key of the session that it is listed under; empty: none
  std::vector<TurnItem> items;
  TurnTokens tokens;
  // By which the turn is found again from what an agent sends back of it, in the form that the
  // caller compares: a SHA-256. Absent: it is not found so.
  std::optional<PrefixDigest> content;
  // Set when it is stored.
  uint64_t order = 0;      // grows from turn to turn, over all tenants, never used twice
  int64_t created_us = 0;  // microseconds since 1970
  friend bool operator==(const Turn&, const Turn&) = default;
};

// Of a record: the turn, and where it hangs.
struct TurnRecord {
  Turn turn;
  uint64_t parent_order = 0;  // 0: none
  uint64_t conversation = 0;  // the order of its first turn
};

// Where a turn is; the value of the rows that lead to it.
struct TurnPlace {
  uint64_t order = 0;
  uint64_t conversation = 0;
};

// What the indexes know of a turn: enough to take all its rows away without its record.
struct TurnMember {
  TurnName tenant{};
  TurnName id{};
  std::optional<TurnName> session;
  std::optional<TurnName> content;
  uint64_t bytes = 0;  // of its record, key and value
  friend bool operator==(const TurnMember&, const TurnMember&) = default;
};

// The state of one conversation.
struct TurnConversation {
  uint64_t last_order = 0;
  int64_t last_us = 0;
  uint64_t bytes = 0;
  uint64_t num_turns = 0;
};

// Of the row that puts a conversation in line to be dropped.
struct TurnAge {
  uint64_t conversation = 0;
  int64_t last_us = 0;
};

// Over everything kept.
struct TurnTotals {
  uint64_t next_order = 1;
  uint64_t num_turns = 0;
  uint64_t num_conversations = 0;
  uint64_t bytes = 0;
};

// Keys of the table. All names have one size, so that none is the beginning of another.
std::string TurnKey(uint64_t order);
std::string TurnIdPrefix(const TurnName& tenant);
std::string TurnIdKey(const TurnName& tenant, const TurnName& id);
std::string TurnSessionPrefix(const TurnName& tenant, const TurnName& session);
std::string TurnContentPrefix(const TurnName& tenant, const TurnName& content);
std::string TurnMemberPrefix(uint64_t conversation);
std::string TurnConversationKey(uint64_t conversation);
std::string TurnAgeKey(uint64_t last_order);
// `prefix` and the order behind it; 0: there is none.
std::string WithOrder(std::string prefix, uint64_t order);
uint64_t OrderOf(std::string_view key);

std::string EncodeTurn(const TurnRecord& record, const Keyring& ring);
// Errors as Unseal's; kDataLoss too where the sizes in it do not add up.
struct DecodedTurn {
  TurnRecord record;
  bool was_clear = false;
};
Result<DecodedTurn> DecodeTurn(std::string_view key, std::string_view value, const Keyring& ring);
TurnMember MemberOf(const Turn& turn, const TurnNames& names, uint64_t bytes);

// Of the other rows; decoding gives nothing where the value is not of that kind.
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

}  // namespace kvgate::store
