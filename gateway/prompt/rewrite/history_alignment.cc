#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "gateway/prompt/history/ephemeral.h"
#include "gateway/prompt/history/held_text.h"
#include "gateway/prompt/parse/breakpoints.h"
#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/element_reader.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/rewrite/list_form.h"
#include "gateway/prompt/rewrite/stabilize.h"
#include "gateway/prompt/rewrite/system_turn.h"
#include "gateway/prompt/rewrite/tail.h"
#include "gateway/prompt/rewrite/thinking.h"

namespace kvgate::prompt::rewrite {

using history::Ephemeral;
using history::HeldText;
using parse::BytesOf;
using parse::CanonicalText;
using parse::Content;
using parse::Identity;
using parse::Role;
using parse::Rule;
using parse::Segment;

namespace {

// Returns true for text that a program added to what a person or model wrote.
template <typename S>
bool IsVolatileText(const S& segment) {
  return segment.is_volatile && segment.content == Content::kText &&
         segment.role != Role::kAssistant;
}

// Returns the index from which on all turns hold only volatile text; message heads are ignored.
template <typename Segments>
size_t TrailOf(const Segments& segments) {
  size_t at = segments.size();
  while (at > 0 &&
         (IsVolatileText(segments[at - 1]) || segments[at - 1].content == Content::kMessageHead)) {
    --at;
  }
  return at;
}

bool EqualValues(std::string_view a, std::string_view b) {
  const std::optional<std::string> left = CanonicalText(a, Content::kText, {});
  return left && left == CanonicalText(b, Content::kText, {});
}

// A message whose content is a list with one text, perhaps beside other blocks, and the same
// message with a string; both without breakpoints.
struct TwoForms {
  std::string_view head;  // with an empty list
  std::string_view block;
  std::string_view message;
};
bool SaySame(const TwoForms& forms) {
  parse::ReadObject object;
  parse::JsonScanner scanner(forms.message);
  if (!parse::ReadElement(forms.message, scanner, object, nullptr).empty() || object.text.empty()) {
    return false;
  }
  const std::string text(object.text.In(forms.message));
  std::string head(forms.message);
  head.replace(object.text.begin, object.text.size(), "[]");
  if (!EqualValues(head, forms.head)) return false;
  for (const std::string_view type : {"text", "input_text"}) {
    const std::string block = R"({"type":")" + std::string(type) + R"(","text":)" + text + "}";
    if (EqualValues(block, forms.block)) return true;
  }
  return false;
}

// Returns true if each slot stands in the line in which it stood.
bool StandAlike(const templates::TextState& before, const templates::TextState& now) {
  if (before.lines.size() != now.lines.size()) return false;
  return std::all_of(before.slots.begin(), before.slots.end(), [&](const auto& old) {
    return std::any_of(now.slots.begin(), now.slots.end(), [&](const auto& it) {
      return it.line == old.line && it.slot == old.slot && it.moved == old.moved;
    });
  });
}
// Returns what the caller wrote with the present lines in the slots.
std::optional<std::string> WithSlots(const std::string& caller, const templates::TextState& before,
                                     const DecodedText& now, const templates::TextState& state) {
  const parse::Span span = parse::TextIn(caller, Content::kText);
  DecodedText old;
  if (!old.Read(caller, span)) return std::nullopt;
  std::string text;
  size_t at = 0;
  for (const templates::SlotLine& slot : state.slots) {
    const templates::TextLine& line = before.lines[slot.line];
    if (line.begin < at || line.end > old.text.size()) return std::nullopt;
    text.append(old.text, at, line.begin - at);
    text += state.lines[slot.line].In(now.text);
    at = line.end;
  }
  text.append(old.text, at);
  return caller.substr(0, span.begin) + parse::QuotedJson(text) + caller.substr(span.end);
}

// Lets a user's string go out as the list that its words went out as before: what differs is the
// notice behind them, or that there is none. Returns false if they were no list, or other words.
bool GoesOutAsList(const Draft& draft, DraftSegment& out) {
  const history::SentSegment& before = *draft.Before(out);
  const history::CallerForm& form = *draft.FormBefore(out);
  const bool may_be = form.as_list && before.bytes && IsString(*out.now) &&
                      out.now->role == Role::kUser && before.role == Role::kUser;
  if (!may_be) return false;
  ListForm list = ListFormOf(draft, out);
  const std::string_view words(list.bytes.data(), list.breakpoint_at);
  if (std::string_view(*before.bytes).substr(0, form.head_split) != words) return false;
  out.bytes = std::make_shared<const std::string>(std::move(list.bytes));
  out.as_list = true;
  out.head_split = list.breakpoint_at;
  out.rule = Rule::kCacheControl;
  return true;
}

class Aligner {
 public:
  Aligner(Draft& draft, Learning& learning)
      : draft_(draft),
        learning_(learning),
        first_user_(FirstUserElement(draft.layout)),
        now_(draft.layout.segments),
        sent_(draft.branch->request.segments),
        before_(ElementsOf(sent_, parse::Section::kMessages)),
        turns_(ElementsOf(now_, parse::Section::kMessages)),
        said_now_(draft.body, now_),
        trail_(TrailOf(sent_)) {
    for (size_t i = TrailOf(now_); i < now_.size(); ++i) {
      if (now_[i].content != Content::kMessageHead) newest_.insert(now_[i].same);
    }
  }

  void Run() {
    auto [b, n] = NumPaired();
    // Turns behind those that were sent go out as they came.
    if (b == before_.size() || n == turns_.size()) return;
    result_.reserve(now_.size() + before_.size());
    const auto take = [&](size_t first, size_t count) {
      const auto begin = draft_.segments.begin() + static_cast<ptrdiff_t>(first);
      std::move(begin, begin + static_cast<ptrdiff_t>(count), std::back_inserter(result_));
    };
    const auto are_paired = [&](const Element& before, const Element& turn) {
      const DraftSegment& first = draft_.segments[turn.first];
      size_t count = 0;
      return !first.dropped && first.before == static_cast<int32_t>(before.first) &&
             IsPaired(turn, count) && count == before.count;
    };
    take(0, turns_[n].first);
    std::vector<DraftSegment> out;
    while (b < before_.size() && n < turns_.size()) {
      const bool is_last = n + 1 == turns_.size();
      if (sent_[before_[b].first].is_ours) {
        const size_t own = before_[b++].first;
        if (!MaySendAgain(draft_, sent_[own])) continue;
        result_.push_back(Back(own, nullptr));
        result_.back().rule = Rule::kSystemTurn;
        continue;
      }
      if (are_paired(before_[b], turns_[n])) {
        take(turns_[n].first, turns_[n].count);
        ++b;
        ++n;
        continue;
      }
      out.clear();
      if (WasLeftOut(draft_, before_[b], turns_[n])) {
        for (size_t k = 0; k < turns_[n].count; ++k) out.push_back(Out(turns_[n].first + k));
        ++n;
      } else if (Match(before_[b], turns_[n], is_last, out) ||
                 (!is_last && MatchOtherForm(before_[b], turns_[n], out))) {
        ++b;
        ++n;
      } else if (IsVolatileElement(before_[b]) && IsReplaced(before_[b])) {
        out.clear();
        ++b;
      } else if (IsVolatileElement(before_[b]) && MayGoOnAll(before_[b], turns_[n].first)) {
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
    KeepUnsaid();
    draft_.segments = std::move(result_);
  }

 private:
  // Returns true if PairTurns has paired all of the turn, but for thinking that stays out, and
  // nothing that was left in the sent bytes has to leave them. Adds the paired segments to `count`.
  bool IsPaired(const Element& turn, size_t& count) {
    for (size_t i = turn.first; i < turn.first + turn.count; ++i) {
      if (draft_.segments[i].dropped) continue;
      const int32_t before = draft_.segments[i].before;
      if (before < 0 || !MayKeepLeft(static_cast<size_t>(before), i)) return false;
      ++count;
    }
    return true;
  }
  // Returns the number of leading turns that are paired and need no further work, first of those
  // that were sent.
  std::pair<size_t, size_t> NumPaired() {
    size_t b = 0;
    size_t n = 0;
    size_t count = 0;
    for (; n < turns_.size() && IsPaired(turns_[n], count); ++n) {
      if (b < before_.size() && sent_[before_[b].first].is_ours) break;
      b += draft_.segments[turns_[n].first].dropped ? 0 : 1;
    }
    return {b, n};
  }
  DraftSegment Own(size_t index) const {
    DraftSegment out;
    out.now = &now_[index];
    out.slot = out.now;
    return out;
  }
  // Thinking that was not sent where it stands stays out.
  DraftSegment Out(size_t index) const {
    DraftSegment out = Own(index);
    LeaveOut(out);
    return out;
  }
  DraftSegment Paired(size_t before, size_t index) const {
    DraftSegment out = Own(index);
    out.before = static_cast<int32_t>(before);
    return out;
  }
  // The segment keeps the bytes that were sent; its changed lines become unsaid ones.
  DraftSegment Held(size_t before, size_t index, HeldText held) const {
    DraftSegment out = Paired(before, index);
    out.unsaid = UnsaidLines(draft_, out, held.changed);
    out.left = draft_.branch->forms[before].left;
    out.left.insert(out.left.end(), std::make_move_iterator(held.left.begin()),
                    std::make_move_iterator(held.left.end()));
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

  // Volatile text at the end of the last request, for which the newest turn has other text, is
  // dropped as its caller dropped it, because no cached text stands behind it. Text that comes
  // again has moved, so it was not replaced.
  bool IsReplaced(size_t before) const {
    return before >= trail_ && !newest_.empty() && !newest_.contains(sent_[before].same);
  }
  bool IsReplaced(const Element& element) const {
    for (size_t i = element.first; i < element.first + element.count; ++i) {
      if (sent_[i].content != Content::kMessageHead && !IsReplaced(i)) return false;
    }
    return true;
  }

  // Returns true if sent text that has left the turns in front of segment `from` may be sent again.
  bool MayGoOn(size_t before, size_t from) {
    const std::string* caller = CallerBytes(*draft_.branch, before);
    const history::SentSegment& old = sent_[before];
    std::vector<std::string> texts;
    if (caller == nullptr || !draft_.Allows(Rule::kReminderKept) || !MayKeepLeft(before, from) ||
        !CanonicalText(*caller, old.content, {}, &texts)) {
      return false;
    }
    return std::all_of(texts.begin(), texts.end(), [&](const std::string& text) {
      const std::optional<std::vector<Ephemeral>> parts = history::ReadEphemeral(text, old.role);
      return parts && std::all_of(parts->begin(), parts->end(), [&](const Ephemeral& part) {
               return said_now_.Covers(part, from);
             });
    });
  }
  bool MayGoOnAll(const Element& element, size_t from) {
    for (size_t i = element.first; i < element.first + element.count; ++i) {
      if (sent_[i].content != Content::kMessageHead && !MayGoOn(i, from)) return false;
    }
    return true;
  }
  // Returns true if a text that is new in an earlier turn may be left out, provided another turn
  // says the same.
  bool IsEphemeralNow(size_t index) const {
    std::string assembled;
    std::vector<std::string> texts;
    const Segment& segment = now_[index];
    return CanonicalText(BytesOf(draft_.body, segment, assembled), segment.content, {}, &texts) &&
           std::all_of(texts.begin(), texts.end(), [&](const std::string& text) {
             return history::ReadEphemeral(text, segment.role).has_value();
           });
  }

  void PutBack(const Element& element, std::vector<DraftSegment>& out) {
    for (size_t i = element.first; i < element.first + element.count; ++i) {
      out.push_back(Back(i, nullptr));
      put_back_.insert(sent_[i].same);
    }
  }

  // Returns true if text that had left a value when it was last sent may still be sent with it.
  bool MayKeepLeft(size_t before, size_t index) {
    const std::vector<Ephemeral>& left = draft_.branch->forms[before].left;
    return std::all_of(left.begin(), left.end(),
                       [&](const Ephemeral& one) { return said_now_.Covers(one, index + 1); });
  }

  // Compares a value that may differ in held program-written text only. Returns nullopt if it says
  // something else.
  std::optional<HeldText> ChangedIn(size_t before, size_t index) {
    const history::SentSegment& old = sent_[before];
    const Segment& segment = now_[index];
    const bool untouched =
        segment.content != Content::kText && segment.content != Content::kToolResult;
    if (untouched || segment.role == Role::kAssistant || old.content != segment.content) {
      return std::nullopt;
    }
    const bool equal_but =
        old.stable == segment.stable || (IsVolatileText(old) && IsVolatileText(segment));
    const std::string* caller = CallerBytes(*draft_.branch, before);
    if (!equal_but || caller == nullptr) return std::nullopt;
    return ChangedFrom(*caller, before, index);
  }
  // The same for `caller`, which stands for what its caller wrote before.
  std::optional<HeldText> ChangedFrom(std::string_view caller, size_t before, size_t index) {
    const Segment& segment = now_[index];
    if (!sent_[before].bytes || !draft_.Allows(Rule::kVolatileHeld)) return std::nullopt;
    std::string assembled;
    std::optional<HeldText> held =
        history::CompareHeld(caller, BytesOf(draft_.body, segment, assembled), segment.content);
    if (!held) return std::nullopt;
    const bool may_go_on =
        std::all_of(held->left.begin(), held->left.end(), [&](const Ephemeral& left) {
          return history::IsEphemeral(left.text, left.kind, segment.role) &&
                 said_now_.Covers(left, index + 1);
        });
    if (!may_go_on || !MayKeepLeft(before, index)) return std::nullopt;
    return held;
  }

  // Returns a first text of the user as it was sent if it differs in the lines of slots, and else
  // in held program-written text only.
  std::optional<DraftSegment> SlotsIn(size_t before, size_t index) {
    const history::CallerForm& form = draft_.branch->forms[before];
    const std::string* caller = CallerBytes(*draft_.branch, before);
    const bool may_be = IsFirstUserText(now_[index], first_user_) && form.text && caller &&
                        sent_[before].content == now_[index].content &&
                        draft_.Allows(Rule::kUserSlots);
    DecodedText now;
    if (!may_be || !now.Read(draft_.body, now_[index].text)) return std::nullopt;
    DraftSegment out = Paired(before, index);
    std::shared_ptr<const templates::TextState> state = ReadUserSlots(draft_, now, out, learning_);
    if (state->slots.empty() || !StandAlike(*form.text, *state)) return std::nullopt;
    const std::optional<std::string> with_slots = WithSlots(*caller, *form.text, now, *state);
    if (!with_slots) return std::nullopt;
    std::optional<HeldText> held = ChangedFrom(*with_slots, before, index);
    if (!held) return std::nullopt;
    out = Held(before, index, *std::move(held));
    out.rule = Rule::kUserSlots;
    out.text = std::move(state);
    return out;
  }
  bool Match(const Element& before, const Element& turn, bool is_last,
             std::vector<DraftSegment>& out) {
    const bool head = now_[turn.first].content == Content::kMessageHead;
    if (head != (sent_[before.first].content == Content::kMessageHead)) return false;
    const Segment* host = head ? &now_[turn.first] : nullptr;
    const bool may_keep = head && !is_last && draft_.Allows(Rule::kReminderKept);
    const size_t b_end = before.first + before.count;
    const size_t n_end = turn.first + turn.count;
    const auto has_slots = [&](size_t index) {
      const auto& text = draft_.branch->forms[index].text;
      return text && !text->slots.empty();
    };
    size_t b = before.first;
    size_t n = turn.first;
    size_t paired = 0;
    std::vector<Identity> back;
    while (b < b_end || n < n_end) {
      const bool both = b < b_end && n < n_end;
      const bool b_volatile = b < b_end && IsVolatileText(sent_[b]) && sent_[b].bytes;
      const bool n_volatile = n < n_end && IsVolatileText(now_[n]);
      const bool is_same = both && sent_[b].same == now_[n].same &&
                           sent_[b].content == now_[n].content && MayKeepLeft(b, n);
      std::optional<HeldText> held;
      std::optional<DraftSegment> slots;
      std::optional<DraftSegment> list;
      if (both && !is_same && !is_last) {
        if (has_slots(b)) slots = SlotsIn(b, n);
        if (!slots) held = ChangedIn(b, n);
        if (!slots && !held && !has_slots(b)) slots = SlotsIn(b, n);
      }
      if (both && !is_same && !held && !slots) {
        list = Paired(b, n);
        if (!GoesOutAsList(draft_, *list)) list.reset();
      }
      if (is_same) {
        out.push_back(Paired(b++, n++));
        ++paired;
      } else if (n < n_end && draft_.binds_thinking && parse::IsThinking(now_[n])) {
        out.push_back(Out(n++));
      } else if (held) {
        out.push_back(Held(b++, n++, *std::move(held)));
        ++paired;
      } else if (slots || list) {
        out.push_back(slots ? *std::move(slots) : *std::move(list));
        ++b;
        ++n;
        ++paired;
      } else if (b_volatile && !n_volatile && !is_last && IsReplaced(b)) {
        ++b;
      } else if (b_volatile && !n_volatile && may_keep && MayGoOn(b, n)) {
        back.push_back(sent_[b].same);
        out.push_back(Back(b++, host));
      } else if (n_volatile && may_keep && IsEphemeralNow(n)) {
        out.push_back(Own(n++));
        out.back().dropped = true;
        out.back().rule = Rule::kReminderKept;
      } else if (b < b_end && sent_[b].is_notice) {
        ++b;  // its caller has taken it back, or says another one
      } else if (n < n_end && (now_[n].is_notice || (is_last && b == b_end))) {
        out.push_back(Own(n++));
      } else {
        return false;
      }
    }
    // At least one block must match, so that the others have a message to belong to.
    if (paired < (head ? 2U : 1U)) return false;
    put_back_.insert(back.begin(), back.end());
    return true;
  }

  // Returns the only segment of an element that is not volatile, if it is a user's text and all
  // others are a head or volatile text; nullopt if there is none, or more than one.
  template <typename Segments>
  static std::optional<size_t> OnlyText(const Segments& segments, const Element& element) {
    std::optional<size_t> found;
    for (size_t i = element.first; i < element.first + element.count; ++i) {
      if (segments[i].role != Role::kUser) return std::nullopt;
      if (segments[i].content == Content::kMessageHead || IsVolatileText(segments[i])) continue;
      if (found || segments[i].content != Content::kText) return std::nullopt;
      found = i;
    }
    return found;
  }

  // A message changes between a string and a list of blocks when a reminder leaves it or comes to
  // it. It goes out in its earlier form if the reminder is sent somewhere.
  bool MatchOtherForm(const Element& before, const Element& turn, std::vector<DraftSegment>& out) {
    const bool was_list = sent_[before.first].content == Content::kMessageHead;
    const bool is_list = now_[turn.first].content == Content::kMessageHead;
    const std::optional<size_t> old = OnlyText(sent_, before);
    const std::optional<size_t> text = OnlyText(now_, turn);
    if (was_list == is_list || !old || !text || !draft_.Allows(Rule::kReminderKept)) return false;
    if (sent_[*old].said != now_[*text].said || !WereSaid(before, turn, *old, *text)) return false;
    std::unordered_set<Identity> known = put_back_;
    for (size_t i = before.first; i < before.first + before.count; ++i) {
      known.insert(sent_[i].same);
      if (IsVolatileText(sent_[i]) && !MayGoOn(i, turn.first + turn.count)) return false;
    }
    for (size_t i = turn.first; i < turn.first + turn.count; ++i) {
      if (!IsVolatileText(now_[i])) continue;
      if (!known.contains(now_[i].same) || !IsEphemeralNow(i)) return false;
    }
    out.clear();
    PutBack(before, out);
    replaced_.insert(now_[turn.first].place.element);
    for (size_t i = turn.first; i < turn.first + turn.count; ++i) {
      out.push_back(Own(i));
      out.back().dropped = true;
      out.back().rule = Rule::kReminderKept;
    }
    return true;
  }

  // Compares the caller's bytes. Returns false too if the sent bytes are not remembered, or do not
  // hold everything that their caller said.
  bool WereSaid(const Element& before, const Element& turn, size_t old, size_t text) const {
    for (size_t i = before.first; i < before.first + before.count; ++i) {
      const history::CallerForm& form = draft_.branch->forms[i];
      if (!sent_[i].bytes || !form.unsaid.empty() || !form.left.empty()) return false;
    }
    const std::string* head = CallerBytes(*draft_.branch, before.first);
    const std::string* said = CallerBytes(*draft_.branch, old);
    std::string head_now;
    std::string text_now;
    const std::string_view own_head = BytesOf(draft_.body, now_[turn.first], head_now);
    const std::string_view own_text = BytesOf(draft_.body, now_[text], text_now);
    return before.count > 1 ? SaySame({.head = *head, .block = *said, .message = own_text})
                            : SaySame({.head = own_head, .block = own_text, .message = *said});
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

  // Text that is new in an earlier turn is left out only while another segment says the same.
  void KeepUnsaid() {
    std::unordered_set<Identity> said;
    const auto note = [&](const DraftSegment& out) {
      if (out.dropped || out.rule == Rule::kVolatileHeld || out.rule == Rule::kUserSlots) return;
      if (out.now != nullptr && out.now->role == Role::kAssistant) return;
      said.insert(out.now != nullptr ? out.now->same : draft_.Before(out)->same);
    };
    const auto is_lone = [&](const DraftSegment& out) {
      return out.dropped && out.rule == Rule::kReminderKept &&
             !replaced_.contains(out.now->place.element);
    };
    if (std::none_of(result_.begin(), result_.end(), is_lone)) return;
    std::for_each(result_.begin(), result_.end(), note);
    for (DraftSegment& out : result_) {
      if (is_lone(out) && !said.contains(out.now->same)) out.dropped = false;
    }
  }

  Draft& draft_;
  Learning& learning_;
  const std::optional<int32_t> first_user_;
  const std::vector<Segment>& now_;
  const history::SentSegments& sent_;
  const std::vector<Element> before_;
  const std::vector<Element> turns_;
  history::SaidNow said_now_;
  const size_t trail_;                   // in the last request, where the volatile end begins
  std::unordered_set<Identity> newest_;  // texts at the end of this request
  std::vector<DraftSegment> result_;
  std::unordered_set<Identity> put_back_;
  std::unordered_set<int32_t> replaced_;  // messages of a new form, sent in their earlier one
};

}  // namespace

void AlignPastVolatile(Draft& draft, Learning& learning) {
  if (draft.branch && parse::HoldsHistory(draft.body, draft.layout)) Aligner(draft, learning).Run();
}

}  // namespace kvgate::prompt::rewrite
