// Carrier: the text of a request that can take lines which no longer stand where their caller has
// them. It is the newest text, so that as little as can be which was sent before changes, and one
// that every provider takes more text in:
//   - a user's text, at its end;
//   - where the newest turn is made of results of tools, the last result's text, at its end and in
//     a frame. No text block behind the results and no message after them: those make another turn
//     of it, at which providers and templates leave out the thinking in front (another answer, and
//     a cache miss), and a system message among the turns is refused by many.
#pragma once

#include <cstdint>
#include <string_view>

#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt {

// What stands around lines in a result, in JSON's spelling.
inline constexpr std::string_view kFrameBegin = "<system-reminder>";
inline constexpr std::string_view kFrameEnd = "</system-reminder>";

struct Carrier {
  DraftSegment* segment = nullptr;  // null: there is none
  uint32_t at = 0;                  // of the body: where a text of `segment` ends
  bool is_result = false;
};

// Where what is new holds no such text, it is one that was sent before: what stands behind it
// leaves the cache.
Carrier NewestCarrier(Draft& draft);

}  // namespace kvgate::prompt
