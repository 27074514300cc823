// The tail is the set of lines at the end of the newest text: those that left the stable prefix,
// and new lines of turns that go out as sent before. A line that the provider already has is not
// repeated while nothing has replaced it. A line that its caller no longer says, and that nothing
// has replaced, is taken back. A slot's line is known by its slot: it is said if it is the newest
// one of its slot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt::rewrite {

// Returns the lines of `segment` that the bytes sent for it do not say: those `changed` since its
// caller's last request, and those unsaid then that it still has. `changed` holds texts, not JSON.
std::vector<UnsaidLine> UnsaidLines(const Draft& draft, const DraftSegment& segment,
                                    const std::vector<std::string>& changed);

// A slot's line of this request. It has to be said unless it is the newest one of its slot.
struct SlotText {
  std::string json;
  uint64_t slot = 0;
  std::optional<std::string> first;  // what goes out in its place; nullopt: it has moved
  bool is_users = false;             // a user's text said it
};
struct TailLines {
  std::vector<std::string> moved;  // lines volatile by their form that left the system prompt
  std::vector<SlotText> slots;
};

// All lines are in JSON spelling. If no text of the request can
// take them, turns and tools with unsaid lines go out unchanged. Returns false, with nothing said,
// if the system prompt has to go out unchanged too.
bool WriteTail(Draft& draft, const TailLines& lines);

}  // namespace kvgate::prompt::rewrite
