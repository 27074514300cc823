#include "gateway/prompt/rewrite/carrier.h"

#include <optional>
#include <string>

#include "gateway/prompt/history/ephemeral.h"
#include "gateway/prompt/parse/element_reader.h"
#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::prompt::rewrite {

using parse::Role;

namespace {

// Returns false for reminders, which their caller moves and takes back, and for empty texts.
bool StaysInItsTurn(std::string_view body, const parse::Segment& segment) {
  if (segment.text.size() <= 2) return false;
  if (!segment.is_volatile) return true;
  std::string text;
  return parse::DecodeString(segment.text.In(body), text) &&
         !history::ReadEphemeral(text, segment.role);
}

// Returns the last text in a result's list of blocks; empty if there is none.
parse::Span LastTextOf(std::string_view body, const parse::Segment& result) {
  parse::Span last;
  parse::JsonScanner scanner(body, result.span.begin);
  scanner.Object([&](const parse::JsonScanner::Name& member) {
    const std::string_view name = member.span.In(body);
    if ((name != "content" && name != "output") || scanner.Peek() != '[') {
      return scanner.Value().has_value();
    }
    return scanner.List([&] {
      if (scanner.Peek() != '{') return scanner.Value().has_value();
      parse::ReadObject block;
      if (!parse::ReadElement(body, scanner, block, nullptr).empty()) return false;
      const bool is_text = block.type == "text" || block.type == "input_text";
      if (is_text && !block.text.empty()) last = block.text;
      return true;
    });
  });
  return last;
}

}  // namespace

Carrier NewestCarrier(Draft& draft) {
  Carrier result;  // used only if the same turn has no user text
  Carrier notice;  // used only if the newest turn has no other text that is new
  std::optional<int32_t> result_turn;
  for (auto out = draft.segments.rbegin(); out != draft.segments.rend(); ++out) {
    if (out->now == nullptr || out->dropped) continue;
    const parse::Segment& segment = *out->now;
    if (segment.place.section != parse::Section::kMessages) break;
    if (segment.role == Role::kSystem || segment.role == Role::kDeveloper) continue;
    const int32_t turn = segment.place.element;
    if (result_turn && *result_turn != turn) break;
    if (notice.segment != nullptr && notice.segment->now->place.element != turn) break;
    const bool is_result =
        segment.role == Role::kTool || segment.content == parse::Content::kToolResult;
    if (segment.role != Role::kUser && segment.role != Role::kTool) continue;
    if (is_result && !result_turn) {
      const bool is_whole = segment.content == parse::Content::kToolResult;
      parse::Span text = segment.text;
      if (text.empty() && is_whole) text = LastTextOf(draft.body, segment);
      if (text.empty()) continue;
      result = {&*out, text.end - 1, true};
      result_turn = turn;
    } else if (!is_result && segment.content == parse::Content::kText &&
               StaysInItsTurn(draft.body, segment)) {
      const Carrier text = {&*out, segment.text.end - 1, false};
      if (segment.is_notice) {
        if (notice.segment == nullptr && out->before < 0) notice = text;
      } else {
        return out->before >= 0 && notice.segment != nullptr ? notice : text;
      }
    }
  }
  return result.segment != nullptr ? result : notice;
}

}  // namespace kvgate::prompt::rewrite
