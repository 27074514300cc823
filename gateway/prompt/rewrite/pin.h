// Pin holds the rules that change no value: tools go out in the order in which they were first
// sent, and a value equal to one sent before goes out in the earlier bytes. From the first turn
// that differs from what was sent, everything counts as new and goes out unchanged.
#pragma once

#include "gateway/prompt/history/tenant_memory.h"
#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt::rewrite {

// Finds for each segment of the draft its counterpart in the branch's request. Tools are paired by
// name, parts of the system prompt by their stable content or position, turns from the front until
// one differs.
void PairWithBranch(Draft& draft);

// Puts the tools into their first-seen order, and uses first-seen bytes for every segment that is
// paired or that this tenant has sent in a tool or system prompt before.
void Pin(Draft& draft, history::TenantMemory& tenants, const history::TenantMemory::Scope& scope);

// Uses the sent bytes for a paired segment whose value is the same; returns false if the value
// differs.
bool UseSentBytes(Draft& draft, DraftSegment& segment);

// Returns the order of all tools that a conversation has sent: those of `before` (may be null),
// then the new ones of `sent`. Bounded: beyond 1024 tools, only `sent` is kept.
std::vector<parse::Identity> ToolsOrder(const history::Branch* before,
                                        const std::vector<parse::Identity>& sent);

// Returns an identity that survives changes of a tool's definition: its name, else its value.
parse::Identity ToolKey(std::string_view body, const parse::Segment& tool);

}  // namespace kvgate::prompt::rewrite
