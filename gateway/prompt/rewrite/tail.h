// The tail is the set of lines at the end of the request: those that left the stable prefix, and
// new lines of turns that go out as sent before. A line that the provider already has is not
// repeated while nothing has replaced it. A line that its caller no longer says, and that nothing
// has replaced, is taken back. A slot's line is known by its slot: it is said if it is the newest
// one of its slot. A line is said by the first of these that the request has:
//   - a text that is new and takes lines (`carrier`); behind tool results, lines of the system
//     prompt have a turn of their own instead if the model takes one (`system_turn`);
//   - nothing: the provider keeps an earlier value of the line, the present one is held back until
//     a request can say it, and a note names it ("held_stale"). Only values may be held, of lines
//     of tools, system prompt and first user texts;
//   - a text that was sent before, or the line's own place: the prefix breaks there.
#pragma once

#include <string>
#include <vector>

#include "gateway/prompt/rewrite/draft.h"
#include "gateway/prompt/rewrite/said_lines.h"

namespace kvgate::prompt::rewrite {

// Returns the lines of `segment` that the bytes sent for it do not say: those `changed` since its
// caller's last request, and those unsaid then that it still has. `changed` holds texts, not JSON.
std::vector<UnsaidLine> UnsaidLines(const Draft& draft, const DraftSegment& segment,
                                    const std::vector<std::string>& changed);

// All lines are in JSON spelling. If nothing can say or hold them, turns and tools with unsaid
// lines go out unchanged. Returns false, with nothing said, if the system prompt has to go out
// unchanged too.
bool WriteTail(Draft& draft, const TailLines& lines);

}  // namespace kvgate::prompt::rewrite
