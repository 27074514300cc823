#include "gateway/prompt/rewrite/carrier.h"

#include <optional>
#include <string>

#include "gateway/prompt/parse/element_reader.h"
#include "gateway/prompt/history/ephemeral.h"
#include "gateway/prompt/skimmer.h"

namespace kvgate::prompt {
namespace {

// A reminder is moved and taken back by its caller, and an empty text is no text.
bool StaysInItsTurn(std::string_view body, const Segment& segment) {
  if (segment.text.size() <= 2) return false;
  if (!segment.is_volatile) return true;
  std::string text;
  return DecodeString(segment.text.In(body), text) && !ReadEphemeral(text, segment.role);
}

// The last text in a result's list of blocks.
Span LastTextOf(std::string_view body, const Segment& result) {
  Span last;
  Skimmer skimmer(body, result.span.begin);
  skimmer.Object([&](const Skimmer::Name& member) {
    const std::string_view name = member.span.In(body);
    if ((name != "content" && name != "output") || skimmer.Peek() != '[') {
      return skimmer.Value().has_value();
    }
    return skimmer.List([&] {
      if (skimmer.Peek() != '{') return skimmer.Value().has_value();
      ReadObject block;
      if (!ReadElement(body, skimmer, block, nullptr).empty()) return false;
      const bool is_text = block.type == "text" || block.type == "input_text";
      if (is_text && !block.text.empty()) last = block.text;
      return true;
    });
  });
  return last;
}

}  // namespace

Carrier NewestCarrier(Draft& draft) {
  Carrier result;  // a user's text in the same turn is better
  std::optional<int32_t> result_turn;
  for (auto out = draft.segments.rbegin(); out != draft.segments.rend(); ++out) {
    if (out->now == nullptr || out->dropped) continue;
    const Segment& segment = *out->now;
    if (segment.place.section != Section::kMessages) break;
    if (segment.role == Role::kSystem || segment.role == Role::kDeveloper) continue;
    const int32_t turn = segment.place.element;
    if (result_turn && *result_turn != turn) break;
    const bool is_result = segment.role == Role::kTool || segment.content == Content::kToolResult;
    if (segment.role != Role::kUser && segment.role != Role::kTool) continue;
    if (is_result && !result_turn) {
      const bool is_whole = segment.content == Content::kToolResult;
      Span text = segment.text;
      if (text.empty() && is_whole) text = LastTextOf(draft.body, segment);
      if (text.empty()) continue;
      result = {&*out, text.end - 1, true};
      result_turn = turn;
    } else if (!is_result && segment.content == Content::kText &&
               StaysInItsTurn(draft.body, segment)) {
      return {&*out, segment.text.end - 1, false};
    }
  }
  return result;
}

}  // namespace kvgate::prompt
