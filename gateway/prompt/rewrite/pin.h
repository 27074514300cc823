// Pin: the rules that change no value: tools in the order in which they were sent first, and what
// equals something sent before in that one's bytes. Where a turn differs from what was sent, the
// rest is new, and goes out as it came.
#pragma once

#include "gateway/prompt/rewrite/draft.h"
#include "gateway/prompt/history/tenant_memory.h"

namespace kvgate::prompt {

// Finds for each segment of the draft what stood there in the branch's request. Tools are paired by
// their names, the system prompt by position, turns from the front on while they are the same.
void PairWithBranch(Draft& draft);

// Tools into their first-seen order; first-seen bytes for all that is paired, or that this tenant
// has sent in a tool or system prompt before.
void Pin(Draft& draft, TenantMemory& tenants, const TenantMemory::Scope& scope);

// The sent bytes in place of a paired segment whose value is the same; false: it is another value.
bool UseSentBytes(Draft& draft, DraftSegment& segment);

// The order of all tools that a conversation has sent: those of `before` (null: none), then what is
// new in `sent`. Bounded: what has not been sent for long is forgotten.
std::vector<Identity> ToolsOrder(const Branch* before, const std::vector<Identity>& sent);

// Names a tool as long as its definition may change: its name, else its value.
Identity ToolKey(std::string_view body, const Segment& tool);

}  // namespace kvgate::prompt
