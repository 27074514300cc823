// Tail: volatile lines at the end of the newest user text: what has left the stable prefix, and
// what is new in turns that go out as they were sent. A line that the provider has from before is
// not said again while nothing has taken its place.
#pragma once

#include <string>
#include <vector>

#include "gateway/prompt/draft.h"

namespace kvgate::prompt {

// The newest turn's last text, if a user wrote it and it was not sent before; null: there is none.
DraftSegment* NewestUserText(Draft& draft);

// What of `segment`, for which other bytes go out, these do not say: `changed` since its caller's
// last request, and what was not said then, if it is still there. Texts, not JSON.
std::vector<UnsaidLine> UnsaidLines(const Draft& draft, const DraftSegment& segment,
                                    const std::vector<std::string>& changed);

// `moved`: lines that left the system prompt, in JSON's spelling. Where no text can take a turn's
// unsaid lines, that turn goes out as it came. What the system prompt and tools hold waits for the
// next text of a user.
void WriteTail(Draft& draft, const std::vector<std::string>& moved);

}  // namespace kvgate::prompt
