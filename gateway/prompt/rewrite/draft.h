// Draft: what goes out instead of a body, segment by segment, while the rules decide on it. Knows
// no rule; its views and pointers are good while body, outline and branch are.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/history/branch.h"
#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt {

// A line that goes out with no byte of its segment. It is said behind the newest user text, or the
// segment's own bytes go out after all.
struct UnsaidLine {
  std::string json;      // in JSON's spelling, without quotes
  bool is_news = false;  // since its caller's last request
};

struct DraftSegment {
  const Segment* now = nullptr;   // the caller's value; null: put back from the request before
  const Segment* slot = nullptr;  // where it stands in the body; of a tool another's may do. Of a
                                  // block that is put back: its message's head; of a message: null
  int32_t before = -1;            // its index in the branch; -1: it was not sent before
  bool dropped = false;           // it stays out: an earlier turn went out without it
  bool as_list = false;
  std::shared_ptr<const std::string> bytes;  // sent instead of its own; null: its own
  std::shared_ptr<const std::string> own;    // its own, where the tenant's memory holds them
  std::vector<Edit> inner;            // instead of `bytes`, where it is changed in places; sorted
  uint32_t head_split = 0;            // in `bytes`, of a message's head
  Rule rule = Rule::kFirstSeenBytes;  // why `bytes`, or why dropped
  std::vector<HeldValue> held;
  std::vector<UnsaidLine> unsaid;    // of its caller's value, where other bytes stand for it
  std::vector<std::string> carried;  // lines of other segments in `inner`, in JSON's spelling
  std::vector<Ephemeral> left;       // in `bytes`, and no more in its caller's value
};

struct Draft {
  std::string_view body;
  const Outline& outline;
  std::shared_ptr<const Branch> branch;  // null: a conversation's first request
  uint32_t rules_off = 0;
  std::vector<DraftSegment> segments;  // in render order
  std::vector<Identity> tool_keys;     // in the order of the draft
  std::vector<std::string> tail;       // volatile lines, as this conversation now knows them
  bool lines_move = false;
  std::vector<std::string> notes;

  bool Allows(Rule rule) const { return (rules_off >> static_cast<uint32_t>(rule) & 1) == 0; }
  const SentSegment* Before(const DraftSegment& segment) const {
    return segment.before < 0 ? nullptr : &branch->request.segments[segment.before];
  }
  const CallerForm* FormBefore(const DraftSegment& segment) const {
    return segment.before < 0 ? nullptr : &branch->forms[segment.before];
  }
};

// All as it came.
Draft MakeDraft(std::string_view body, const Outline& outline, std::shared_ptr<const Branch> branch,
                uint32_t rules_off);

// Segments [first, first + count) of one element of the body.
struct Element {
  size_t first = 0;
  size_t count = 0;
};
template <typename Segments>
std::vector<Element> ElementsOf(const Segments& segments, Section section) {
  std::vector<Element> elements;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].place.section != section) continue;
    if (!elements.empty() && segments[i].place.block >= 0 &&
        segments[i - 1].place.element == segments[i].place.element) {
      ++elements.back().count;
    } else {
      elements.push_back({i, 1});
    }
  }
  return elements;
}

// Of what was sent before: the caller's bytes of a segment; null: they are not remembered.
const std::string* CallerBytes(const Branch& branch, size_t index);

}  // namespace kvgate::prompt
