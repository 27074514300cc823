// Removes thinking from a request whose prefix may not be the one that the thinking was made for.
// A provider that binds thinking to the prefix refuses it there; a request without any of it is
// always accepted. Pure; may be called from any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "gateway/prompt/parse/edit.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt::rewrite {

// Leaves all thinking of the segments from `first` on out of the draft, and messages that hold
// nothing else. Requests that go on from this one leave it out too. Returns false if there is none.
bool LeaveThinkingOut(Draft& draft, size_t first);

// Returns true if `turn` of the layout holds nothing but thinking, and was left out when the turn
// `before` of the branch was sent. REQUIRES: the draft has a branch.
bool WasLeftOut(const Draft& draft, const Element& before, const Element& turn);
void LeaveOut(DraftSegment& out);

// Returns the edits that cut every thinking block of an assistant's message. A message that holds
// nothing else is cut as a whole, because providers refuse empty ones.
std::vector<parse::Edit> RemoveThinking(const parse::RequestLayout& layout);

}  // namespace kvgate::prompt::rewrite
