// Branch: one line of a conversation: its last request as sent, and of each segment how its caller
// had written it. A conversation has several where turns were taken back, or where an agent's
// helpers share its session. Immutable once it is remembered, but for its answer's counts, which
// ConversationMemory guards.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/parse/edit.h"
#include "gateway/prompt/history/ephemeral.h"
#include "gateway/prompt/parse/volatile_text.h"

namespace kvgate::prompt {

// A volatile value as it went out first, in JSON's spelling.
struct HeldValue {
  VolatileKind kind = VolatileKind::kTime;
  std::string json;
};

// Beside a SentSegment: its caller's form of it.
struct CallerForm {
  Identity raw;                               // of the caller's bytes, as they came last
  std::shared_ptr<const std::string> caller;  // in any spelling; null: the bytes that were sent
  Rule rule = Rule::kFirstSeenBytes;          // why other bytes were sent
  bool as_list = false;                       // a string that went out as a list of one block
  uint32_t head_split = 0;                    // of a message's head: where its blocks stand
  std::vector<HeldValue> held;
  std::vector<std::string> unsaid;   // lines of `caller` that stand in other segments' bytes
  std::vector<std::string> carried;  // lines of others that stand in the bytes sent, in JSON
  std::vector<Ephemeral> left;       // what stands in the bytes sent, and no more in `caller`
};

struct Branch {
  Identity line;  // the same from its first request on
  SentRequest request;
  SharedList<CallerForm> forms;     // by segment
  std::vector<Identity> tool_keys;  // by tool, in the order sent
  // Of all tools it has ever sent, so that one that comes back stands where it stood.
  std::vector<Identity> tools_order;
  std::vector<std::string> tail;  // the volatile lines that were sent last, in JSON's spelling
  bool lines_move = false;        // out of the system prompt; decided by the first request
  size_t bytes = 0;               // of memory
  bool finished = false;          // guarded by ConversationMemory
};

}  // namespace kvgate::prompt
