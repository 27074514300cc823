#include "gateway/prompt/rewrite/thinking.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt::rewrite {

using parse::Content;
using parse::Edit;
using parse::IsThinking;
using parse::Rule;
using parse::Segment;
using parse::Span;

namespace {

// One item of a JSON list, which goes or stays.
struct Item {
  Span span;
  bool goes = false;
  std::string path;
};

// Cuts the items that go, each with one comma beside it. Some item has to stay.
void CutFrom(const std::vector<Item>& items, std::vector<Edit>& edits) {
  size_t last = items.size();  // the last item in front that stays
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].goes) {
      last = i;
      continue;
    }
    size_t end = i;
    while (end + 1 < items.size() && items[end + 1].goes) ++end;
    Span cut = {items[i].span.begin, items[end].span.end};
    if (end + 1 < items.size()) {
      cut.end = items[end + 1].span.begin;
    } else {
      cut.begin = items[last].span.end;
    }
    edits.push_back({Rule::kThinkingRemoved, cut, "", items[i].path});
    i = end;
  }
}

}  // namespace

bool LeaveThinkingOut(Draft& draft, size_t first) {
  bool is_any = false;
  std::vector<DraftSegment>& segments = draft.segments;
  for (size_t head = 0; head < segments.size(); ++head) {
    const Segment* const message = segments[head].now;
    if (message == nullptr || message->content != Content::kMessageHead) continue;
    bool is_all = true;
    size_t end = head + 1;
    for (; end < segments.size(); ++end) {
      DraftSegment& out = segments[end];
      const bool is_new = out.now != nullptr && (out.now->place.block < 0 ||
                                                 out.now->place.element != message->place.element);
      if (is_new) break;
      const bool goes = out.now != nullptr && IsThinking(*out.now) && (end >= first || out.dropped);
      is_any = is_any || (goes && !out.dropped);
      if (goes) LeaveOut(out);
      is_all = is_all && goes;
    }
    if (is_all && end > head + 1) LeaveOut(segments[head]);
  }
  return is_any;
}

bool WasLeftOut(const Draft& draft, const Element& before, const Element& turn) {
  if (!draft.binds_thinking || turn.count < 2) return false;
  for (size_t i = turn.first + 1; i < turn.first + turn.count; ++i) {
    if (!IsThinking(draft.layout.segments[i])) return false;
  }
  const history::SentSegments& sent = draft.branch->request.segments;
  return before.count < 2 || sent[before.first + 1].content != Content::kThinking;
}

void LeaveOut(DraftSegment& out) {
  out.dropped = true;
  out.rule = Rule::kThinkingRemoved;
}

std::vector<Edit> RemoveThinking(const parse::RequestLayout& layout) {
  std::vector<Edit> edits;
  std::vector<Item> messages;
  for (const Element& element : ElementsOf(layout.segments, parse::Section::kMessages)) {
    const Segment& head = layout.segments[element.first];
    std::vector<Item> blocks;
    size_t num_thinking = 0;
    for (size_t k = 0; k < element.count; ++k) {
      const Segment& segment = layout.segments[element.first + k];
      if (segment.content == Content::kMessageHead) continue;
      blocks.push_back({segment.span, IsThinking(segment), parse::PathOf(segment.place)});
      num_thinking += IsThinking(segment) ? 1 : 0;
    }
    const bool goes = num_thinking > 0 && num_thinking == blocks.size();
    messages.push_back({head.element, goes, parse::PathOf(head.place)});
    if (num_thinking > 0 && !goes) CutFrom(blocks, edits);
  }
  const bool any_stays = std::any_of(messages.begin(), messages.end(),
                                     [](const Item& message) { return !message.goes; });
  if (any_stays) CutFrom(messages, edits);
  parse::SortEdits(edits);
  return edits;
}

}  // namespace kvgate::prompt::rewrite
