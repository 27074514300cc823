#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "gateway/prompt/canonical.h"
#include "gateway/prompt/segment_text.h"
#include "gateway/prompt/stabilize.h"

namespace kvgate::prompt {
namespace {

// Text that came from a program beside what a person or model wrote.
template <typename S>
bool IsVolatileText(const S& segment) {
  return segment.is_volatile && segment.content == Content::kText &&
         segment.role != Role::kAssistant;
}

class Aligner {
 public:
  explicit Aligner(Draft& draft)
      : draft_(draft),
        now_(draft.outline.segments),
        sent_(draft.branch->request.segments),
        before_(ElementsOf(sent_, Section::kMessages)),
        turns_(ElementsOf(now_, Section::kMessages)) {}

  void Run() {
    size_t b = 0;
    size_t n = 0;
    while (b < before_.size() && n < turns_.size()) {
      std::vector<DraftSegment> out;
      if (Match(before_[b], turns_[n], n + 1 == turns_.size(), out)) {
        ++b;
        ++n;
      } else if (IsVolatileElement(before_[b]) && draft_.Allows(Rule::kReminderKept)) {
        out.clear();
        PutBack(before_[b++], out);
      } else {
        break;
      }
      result_.insert(result_.end(), std::make_move_iterator(out.begin()),
                     std::make_move_iterator(out.end()));
    }
    for (; n < turns_.size(); ++n) {
      for (size_t k = 0; k < turns_[n].count; ++k) result_.push_back(Own(turns_[n].first + k));
    }
    DropMoved();
    const auto is_turn = [](const DraftSegment& segment) {
      return segment.now->place.section == Section::kMessages;
    };
    const auto first = std::find_if(draft_.segments.begin(), draft_.segments.end(), is_turn);
    draft_.segments.erase(first, draft_.segments.end());
    draft_.segments.insert(draft_.segments.end(), std::make_move_iterator(result_.begin()),
                           std::make_move_iterator(result_.end()));
  }

 private:
  DraftSegment Own(size_t index) const {
    DraftSegment out;
    out.now = &now_[index];
    out.slot = out.now;
    return out;
  }
  DraftSegment Paired(size_t before, size_t index) const {
    DraftSegment out = Own(index);
    out.before = static_cast<int32_t>(before);
    return out;
  }
  // Its value is sent as it was, whatever it says now.
  DraftSegment Held(size_t before, size_t index) const {
    DraftSegment out = Paired(before, index);
    out.bytes = sent_[before].bytes;
    out.head_split = draft_.branch->forms[before].head_split;
    out.as_list = draft_.branch->forms[before].as_list;
    out.rule = Rule::kVolatileHeld;
    return out;
  }
  DraftSegment Back(size_t before, const Segment* host) const {
    DraftSegment out;
    out.slot = host;
    out.before = static_cast<int32_t>(before);
    out.bytes = sent_[before].bytes;
    out.head_split = draft_.branch->forms[before].head_split;
    out.rule = Rule::kReminderKept;
    return out;
  }

  bool IsVolatileElement(const Element& element) const {
    bool has_text = false;
    for (size_t i = element.first; i < element.first + element.count; ++i) {
      const bool is_text = IsVolatileText(sent_[i]);
      if (!sent_[i].bytes || (!is_text && sent_[i].content != Content::kMessageHead)) return false;
      has_text = has_text || is_text;
    }
    return has_text;
  }

  void PutBack(const Element& element, std::vector<DraftSegment>& out) {
    for (size_t i = element.first; i < element.first + element.count; ++i) {
      out.push_back(Back(i, nullptr));
      put_back_.insert(sent_[i].same);
    }
  }

  // Whether two values differ only in what programs write and may be held.
  bool MayHold(size_t before, size_t index) const {
    const SentSegment& old = sent_[before];
    const Segment& segment = now_[index];
    const bool untouched =
        segment.content != Content::kText && segment.content != Content::kToolResult;
    if (untouched || segment.role == Role::kAssistant || old.content != segment.content) {
      return false;
    }
    const bool equal_but =
        old.stable == segment.stable || (IsVolatileText(old) && IsVolatileText(segment));
    const std::string* caller = CallerBytes(*draft_.branch, before);
    if (!equal_but || !old.bytes || caller == nullptr || !draft_.Allows(Rule::kVolatileHeld)) {
      return false;
    }
    std::string assembled;
    const CanonicalForm form = {.newlines_folded = true, .cut = Cut::kHeld};
    const auto left =
        CanonicalText(BytesOf(draft_.body, segment, assembled), segment.content, form);
    return left && left == CanonicalText(*caller, segment.content, form);
  }

  bool Match(const Element& before, const Element& turn, bool is_last,
             std::vector<DraftSegment>& out) {
    const bool head = now_[turn.first].content == Content::kMessageHead;
    if (head != (sent_[before.first].content == Content::kMessageHead)) return false;
    const Segment* host = head ? &now_[turn.first] : nullptr;
    const bool may_keep = head && !is_last && draft_.Allows(Rule::kReminderKept);
    const size_t b_end = before.first + before.count;
    const size_t n_end = turn.first + turn.count;
    size_t b = before.first;
    size_t n = turn.first;
    size_t paired = 0;
    std::vector<Identity> back;
    while (b < b_end || n < n_end) {
      const bool both = b < b_end && n < n_end;
      const bool b_volatile = b < b_end && IsVolatileText(sent_[b]) && sent_[b].bytes;
      const bool n_volatile = n < n_end && IsVolatileText(now_[n]);
      if (both && sent_[b].same == now_[n].same && sent_[b].content == now_[n].content) {
        out.push_back(Paired(b++, n++));
        ++paired;
      } else if (both && !is_last && MayHold(b, n)) {
        out.push_back(Held(b++, n++));
        ++paired;
      } else if (b_volatile && !n_volatile && may_keep) {
        back.push_back(sent_[b].same);
        out.push_back(Back(b++, host));
      } else if (n_volatile && may_keep) {
        out.push_back(Own(n++));
        out.back().dropped = true;
        out.back().rule = Rule::kReminderKept;
      } else {
        return false;
      }
    }
    // At least one block must be there to hang the others on.
    if (paired < (head ? 2U : 1U)) return false;
    put_back_.insert(back.begin(), back.end());
    return true;
  }

  // A reminder that stays where it was first seen is not sent a second time by the newest turn.
  void DropMoved() {
    if (put_back_.empty() || turns_.empty()) return;
    const Element& last = turns_.back();
    if (result_.size() < last.count) return;
    const size_t begin = result_.size() - last.count;
    const auto moved = [&](const DraftSegment& out) {
      return out.now != nullptr && out.before < 0 && IsVolatileText(*out.now) &&
             out.now->place.block >= 0 && put_back_.contains(out.now->same);
    };
    const auto others = [&](const DraftSegment& out) {
      return out.now != nullptr && out.now->content != Content::kMessageHead && !moved(out);
    };
    if (std::none_of(result_.begin() + begin, result_.end(), others)) return;
    for (size_t i = begin; i < result_.size(); ++i) {
      if (!moved(result_[i])) continue;
      result_[i].dropped = true;
      result_[i].rule = Rule::kReminderKept;
    }
  }

  Draft& draft_;
  const std::vector<Segment>& now_;
  const std::vector<SentSegment>& sent_;
  const std::vector<Element> before_;
  const std::vector<Element> turns_;
  std::vector<DraftSegment> result_;
  std::unordered_set<Identity> put_back_;
};

}  // namespace

void PairPastVolatile(Draft& draft) {
  if (draft.branch) Aligner(draft).Run();
}

}  // namespace kvgate::prompt
