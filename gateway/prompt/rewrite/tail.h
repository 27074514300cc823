// Tail: lines at the end of the newest text: what has left the stable prefix, and what is new in
// turns that go out as they were sent. A line that the provider has from before is not said again
// while nothing has taken its place; one that its caller no longer says, and that nothing has taken
// the place of, is taken back.
#pragma once

#include <string>
#include <vector>

#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt {

// What of `segment`, for which other bytes go out, these do not say: `changed` since its caller's
// last request, and what was not said then, if it is still there. Texts, not JSON.
std::vector<UnsaidLine> UnsaidLines(const Draft& draft, const DraftSegment& segment,
                                    const std::vector<std::string>& changed);

// `moved`: lines that left the system prompt, in JSON's spelling. Where no text of the request can
// take them, turns and tools with unsaid lines go out as they came; false: the system prompt has
// to, and nothing of it is said.
bool WriteTail(Draft& draft, const std::vector<std::string>& moved);

}  // namespace kvgate::prompt
