#include "gateway/prompt/rewrite/list_form.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::prompt::rewrite {

using dialect::form::Endpoint;
using parse::Edit;
using parse::Segment;
using parse::Span;

namespace {

constexpr std::string_view kClosing = "}]";

std::string BlockOpening(Endpoint endpoint) {
  return endpoint == Endpoint::kResponses ? R"({"type":"input_text","text":)"
                                          : R"({"type":"text","text":)";
}

Edit Insertion(uint32_t at, std::string bytes) {
  return {parse::Rule::kCacheControl, {at, at}, std::move(bytes), ""};
}

}  // namespace

bool IsString(const Segment& segment) {
  return segment.place.block < 0 && segment.content == parse::Content::kText &&
         !segment.text.empty() && !(segment.place.field == "system" && segment.place.element >= 0);
}

ListForm ListFormOf(const Draft& draft, const DraftSegment& segment) {
  const Segment& now = *segment.now;
  const bool is_cut = std::any_of(segment.inner.begin(), segment.inner.end(), [&](const Edit& it) {
    return it.span.begin < now.notice.begin && now.notice.begin < it.span.end;
  });
  const bool has_notice = !now.notice.empty() && !is_cut;
  const uint32_t end = has_notice ? now.notice.begin : now.text.end;
  const std::string block = BlockOpening(draft.layout.endpoint);
  ListForm form;
  form.edits.push_back(Insertion(now.text.begin, "[" + block));
  if (has_notice) form.edits.push_back(Insertion(end, "\"}," + block + "\""));
  form.edits.push_back(Insertion(now.text.end, std::string(kClosing)));
  form.breakpoint_in_edit = has_notice ? 1 : 0;
  std::vector<Edit> edits = segment.inner;
  edits.insert(edits.end(), form.edits.begin(), form.edits.end());
  if (!now.source_span.empty()) {
    edits.push_back({parse::Rule::kSourceField, now.source_span, "", ""});
  }
  parse::SortEdits(edits);
  form.bytes = parse::ApplyEdits(draft.body, edits, now.span);
  std::erase_if(edits, [&](const Edit& edit) { return edit.span.begin >= end; });
  const std::string front = parse::ApplyEdits(draft.body, edits, {now.span.begin, end});
  form.breakpoint_at = static_cast<uint32_t>(front.size()) + form.breakpoint_in_edit;
  return form;
}

std::string StringFormOf(Endpoint endpoint, std::string_view list, uint32_t breakpoint_at) {
  std::string string(list);
  if (breakpoint_at == 0 || breakpoint_at + kClosing.size() > list.size()) return string;
  const std::string block = BlockOpening(endpoint);
  const std::string next = "}," + block;
  if (list.substr(breakpoint_at).starts_with(next)) {
    const size_t second = breakpoint_at + next.size();  // the notice, with its quotes
    const std::optional<Span> notice = parse::JsonScanner(list, second).Value();
    if (!notice) return string;
    string.erase(notice->end, kClosing.size());
    string.erase(breakpoint_at - 1, next.size() + 2);  // with the quotes beside it
  } else {
    string.erase(breakpoint_at, kClosing.size());
  }
  const size_t opening = string.find("[" + block);
  if (opening != std::string::npos) string.erase(opening, block.size() + 1);
  return string;
}

PlannedString PlannedStringOf(std::string_view bytes, Span text, Span notice) {
  const uint32_t end = notice.empty() ? text.end - 1 : notice.begin;
  PlannedString planned{.words = parse::HashBytes(bytes.substr(0, end), parse::Domain::kRaw),
                        .rest = {},
                        .has_notice = !notice.empty()};
  const std::string_view rest = bytes.substr(end);
  if (rest != "\"" && rest != "\"}") planned.rest = parse::HashBytes(rest, parse::Domain::kRaw);
  return planned;
}

}  // namespace kvgate::prompt::rewrite
