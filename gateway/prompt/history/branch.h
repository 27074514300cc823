// A Branch is one line of a conversation: its last request as sent, and for each segment the form
// in which its caller wrote it. A conversation has several branches when turns were taken back, or
// when an agent's helpers share its session. A branch is immutable once it is remembered, except
// for the token counts of its answer, which ConversationMemory guards.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/ledger/prices.h"
#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/history/ephemeral.h"
#include "gateway/prompt/history/first_turn.h"
#include "gateway/prompt/parse/edit.h"
#include "gateway/prompt/parse/volatile_text.h"
#include "gateway/prompt/templates/slot_set.h"
#include "gateway/prompt/templates/text_state.h"

namespace kvgate::prompt {
enum class Mode : uint8_t;
}

namespace kvgate::prompt::history {

// A volatile value in the JSON spelling in which it was first sent.
struct HeldValue {
  parse::VolatileKind kind = parse::VolatileKind::kTime;
  std::string json;
};

// The caller's form of a segment; it stands beside the SentSegment of the same index.
struct CallerForm {
  parse::Identity raw;                              // of the caller's bytes, as last received
  std::shared_ptr<const std::string> caller;        // any spelling; null: the bytes that were sent
  parse::Rule rule = parse::Rule::kFirstSeenBytes;  // why other bytes were sent
  bool as_list = false;                             // a string that went out as a list of one block
  uint32_t head_split = 0;                          // offset of the blocks in a message head
  std::vector<HeldValue> held;
  std::vector<std::string> unsaid;  // lines of `caller` that went out in other segments' bytes
  std::vector<templates::CarriedLine> carried;  // lines of other segments in the bytes sent
  std::vector<Ephemeral> left;  // text in the bytes sent that `caller` no longer has
  std::shared_ptr<const templates::TextState> text;  // its lines; null: they were not read
};

struct Branch {
  parse::Identity conversation;
  uint64_t origin = 0;   // equal for the branches that go on from one first request
  parse::Identity line;  // identifies the branch from its first request on
  std::shared_ptr<const FirstTurn> first_turn = {};  // null: there have been many answers since
  SentRequest request;
  parse::SharedList<CallerForm> forms;     // by segment
  std::vector<parse::Identity> tool_keys;  // of the tools, in the order sent
  // All tools that the branch has ever sent, so that one that comes back gets its former position.
  std::vector<parse::Identity> tools_order;
  std::vector<std::string> tail;  // volatile lines that were sent last, in JSON spelling
  bool lines_move = false;        // lines leave the system prompt; decided by the first request
  std::shared_ptr<const templates::SlotSet> slots;  // those it began with; null: none
  // The mode and the rules that were off when it began. A later configuration does not change them,
  // because what was sent stays as it is.
  Mode mode{};
  uint32_t rules_off = 0;
  // What its model takes behind tool results; it only sinks, where a provider has refused one.
  ledger::SystemTurn system_turn = ledger::SystemTurn::kNone;
  // Time of the last request before those that held a slot's value back; 0: none is held now.
  int64_t held_since_us = 0;
  uint64_t token = 0;        // names this very request, beyond the process
  uint64_t before = 0;       // token of the request that a restored one went on from; 0: not known
  bool is_restored = false;  // of an earlier process; see restored_branch.h
  bool is_lost = false;      // what was sent before it is not known; it goes out as received
  size_t bytes = 0;          // of memory
  bool finished = false;     // guarded by ConversationMemory
};

// Drops the bytes of a request that is too long to be remembered, but keeps its structure.
void DropBytes(Branch& branch);

// Returns the bytes of the segment in that place, as its caller wrote them or as they were sent;
// null if there is none, or if its bytes are not remembered.
const std::string* BytesAt(const Branch& branch, const parse::Place& place, bool is_callers);

}  // namespace kvgate::prompt::history
