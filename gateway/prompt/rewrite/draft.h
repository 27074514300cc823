// A Draft holds what goes out instead of a body, segment by segment, while the rules decide on it.
// It knows no rule. Its views and pointers stay valid while body, layout and branch live.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/history/branch.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/templates/slot_set.h"
#include "gateway/prompt/templates/text_state.h"

namespace kvgate::prompt::rewrite {

// A line that no byte of its segment expresses any more. Either it is said behind the newest user
// text, or the segment's own bytes go out after all.
struct UnsaidLine {
  std::string json;      // in JSON spelling, without quotes
  bool is_news = false;  // new since its caller's last request
};

struct DraftSegment {
  const parse::Segment* now =
      nullptr;  // the caller's value; null: put back from the request before, or the gateway's own
  const parse::Segment* slot =
      nullptr;           // its position in the body; a tool may take another tool's. For
                         // a block put back: its message's head; for a message: null
  int32_t before = -1;   // its index in the branch; -1: it was not sent before
  bool dropped = false;  // left out, because an earlier turn went out without it
  bool as_list = false;
  std::shared_ptr<const std::string> bytes;  // sent instead of its own; null: its own
  std::shared_ptr<const std::string> own;    // its own, if the tenant's memory holds them
  std::vector<parse::Edit> inner;            // small changes in place of `bytes`; sorted
  uint32_t head_split = 0;                   // offset of the blocks in `bytes` of a message head
  parse::Rule rule = parse::Rule::kFirstSeenBytes;  // explains `bytes` or `dropped`
  std::vector<history::HeldValue> held;
  std::vector<UnsaidLine> unsaid;               // of the caller's value, if other bytes replace it
  std::vector<templates::CarriedLine> carried;  // lines of other segments in `inner`
  std::vector<history::Ephemeral> left;         // in `bytes`, but no longer in the caller's value
  std::shared_ptr<const templates::TextState> text;  // the lines of the caller's value, if read
  // A turn of the gateway's own that is new; its position is then at the end.
  std::shared_ptr<const history::SentSegment> ours;
};

// Discards every decision on the segment, so that its caller's bytes go out.
void GoAsItCame(DraftSegment& out);

struct Draft {
  std::string_view body;
  const parse::RequestLayout& layout;
  std::shared_ptr<const history::Branch> branch;  // null: a conversation's first request
  uint32_t rules_off = 0;
  std::vector<DraftSegment> segments;      // in render order
  std::vector<parse::Identity> tool_keys;  // in the draft's order
  std::vector<std::string> tail;  // volatile lines that the conversation knows after this request
  bool lines_move = false;
  bool binds_thinking = false;  // the model refuses thinking behind another prefix than its own
  std::shared_ptr<const templates::SlotSet> slots;  // those that the conversation began with
  ledger::SystemTurn system_turn = ledger::SystemTurn::kNone;  // that may be added and sent again
  bool is_dry = false;  // it will not be sent, so that nothing it finds counts as used
  size_t num_held = 0;  // lines of slots whose present values nothing says
  std::vector<std::string> notes;

  bool Allows(parse::Rule rule) const {
    return (rules_off >> static_cast<uint32_t>(rule) & 1) == 0;
  }
  const history::SentSegment* Before(const DraftSegment& segment) const {
    return segment.before < 0 ? nullptr : &branch->request.segments[segment.before];
  }
  // Returns what is known of a segment that its caller does not say. REQUIRES: `now` is null.
  const history::SentSegment& Added(const DraftSegment& segment) const {
    return segment.ours ? *segment.ours : *Before(segment);
  }
  const history::CallerForm* FormBefore(const DraftSegment& segment) const {
    return segment.before < 0 ? nullptr : &branch->forms[segment.before];
  }
};

// Returns a draft in which every segment is sent unchanged.
Draft MakeDraft(std::string_view body, const parse::RequestLayout& layout,
                std::shared_ptr<const history::Branch> branch, uint32_t rules_off);

// The segments [first, first + count), which make up one element of the body.
struct Element {
  size_t first = 0;
  size_t count = 0;
};
template <typename Segments>
std::vector<Element> ElementsOf(const Segments& segments, parse::Section section) {
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

// Returns the caller's bytes of a segment that was sent before; null if they are not remembered.
const std::string* CallerBytes(const history::Branch& branch, size_t index);

}  // namespace kvgate::prompt::rewrite
