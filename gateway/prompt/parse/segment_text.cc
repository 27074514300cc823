#include "gateway/prompt/parse/segment_text.h"

#include <algorithm>
#include <array>

namespace kvgate::prompt::parse {

std::string_view BytesOf(std::string_view body, const Segment& segment, std::string& assembled) {
  // The brackets of the list of blocks are kept.
  const Span blocks =
      segment.blocks.empty() ? Span{} : Span{segment.blocks.begin + 1, segment.blocks.end - 1};
  std::array<Span, 3> cuts = {segment.breakpoint_span, segment.source_span, blocks};
  if (std::all_of(cuts.begin(), cuts.end(), [](const Span& cut) { return cut.empty(); })) {
    return segment.span.In(body);
  }
  std::sort(cuts.begin(), cuts.end(),
            [](const Span& a, const Span& b) { return a.begin < b.begin; });
  assembled.clear();
  uint32_t at = segment.span.begin;
  for (const Span& cut : cuts) {
    if (cut.empty()) continue;
    assembled.append(body, at, cut.begin - at);
    at = cut.end;
  }
  assembled.append(body, at, segment.span.end - at);
  return assembled;
}

}  // namespace kvgate::prompt::parse
