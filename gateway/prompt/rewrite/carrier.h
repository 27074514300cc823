// The carrier is the text of a request that takes lines which moved away from where their caller
// has them. It is the newest suitable text, so that as little already sent text as possible
// changes, and one to which every provider lets text be added:
//   - a user's text: at its end, in a frame if there are lines of learnt slots among them. A notice
//     behind it (parse::Segment::is_notice) may be taken back, and takes them only if it alone is
//     new;
//   - if the newest turn consists of tool results, the last result's text: at its end, in a frame.
//     A text block behind the results or a message after them would make it another turn, at which
//     providers and templates leave out the earlier thinking (another answer, and a cache miss),
//     and many providers refuse a system message among the turns.
#pragma once

#include <cstdint>
#include <string_view>

#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt::rewrite {

// The frame around lines that the text's author did not write, in JSON spelling. Providers advise a
// tag for what a program says within a user's turn, and models know this one.
inline constexpr std::string_view kFrameBegin = "<system-reminder>";
inline constexpr std::string_view kFrameEnd = "</system-reminder>";

struct Carrier {
  DraftSegment* segment = nullptr;  // null: no text can take lines
  uint32_t at = 0;                  // body offset at which a text of `segment` ends
  bool is_result = false;
};

// If the new part of the request has no such text, one that was sent before is used; everything
// behind it then misses the cache.
Carrier NewestCarrier(Draft& draft);

}  // namespace kvgate::prompt::rewrite
