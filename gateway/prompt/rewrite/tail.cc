#include "gateway/prompt/rewrite/tail.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "gateway/prompt/parse/breakpoints.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/rewrite/carrier.h"
#include "gateway/prompt/rewrite/system_turn.h"

namespace kvgate::prompt::rewrite {

using templates::CarriedLine;

namespace {

// Outdated lines of this total size may stay in any request.
constexpr size_t kOutdatedBytes = 16U << 10;

// Returns true if the two say the same thing at two times.
bool AreOfOneSlot(const CarriedLine& a, const CarriedLine& b) {
  if (a.slot != 0 || b.slot != 0) return a.slot == b.slot;
  return AreOfOneSlotJson(a.json, b.json);
}

// How a line reaches the provider.
enum class Way : uint8_t {
  kNone,
  kTurn,     // in a system turn
  kText,     // at the end of a text that is new
  kHeld,     // not now
  kOldText,  // at the end of a text that was sent before
};

class TailWriter {
 public:
  TailWriter(Draft& draft, const TailLines& lines)
      : draft_(draft), moved_(lines.moved), slots_(lines.slots), said_(draft, lines) {}

  bool Run() {
    for (DraftSegment& out : draft_.segments) {
      if (out.now != nullptr) TakeOver(out);
    }
    FindCarrier();
    TakeBack();
    FindCarrier();
    while (HasOneGoAsItCame()) {
    }
    if (carrier_.segment == nullptr && SystemIsMissing()) return false;
    if (carrier_.segment != nullptr) {
      Renew();
      while (HasOneGoAsItCame()) {
      }
    }
    Append();
    if (draft_.lines_move) draft_.tail = moved_;
    return true;
  }

 private:
  void FindCarrier() {
    carrier_ = MayMove() ? NewestCarrier(draft_) : Carrier{};
    // The newest words of a user take lines themselves.
    const bool is_words =
        carrier_.segment != nullptr && !carrier_.is_result && IsInNewestTurn(*carrier_.segment);
    adds_turn_ = MayMove() && !is_words && MayAddSystemTurn(draft_);
  }
  bool MayMove() const { return draft_.Allows(parse::Rule::kVolatileMoved); }
  bool IsInNewestTurn(const DraftSegment& out) const {
    return out.now->place.element == draft_.layout.segments.back().place.element;
  }

  Way WayOf(const CarriedLine& line) const {
    if (adds_turn_ && said_.IsSystems(line)) return Way::kTurn;
    const DraftSegment* const text = carrier_.segment;
    if (text != nullptr && (text->before < 0 || IsInNewestTurn(*text))) return Way::kText;
    // Where the rule is off, it would never be said.
    if (MayMove() && said_.HasEarlier(line)) return Way::kHeld;
    return text == nullptr ? Way::kNone : Way::kOldText;
  }
  // A segment that goes out as before has the same unsaid lines, whose earlier carrier may be gone.
  void TakeOver(DraftSegment& out) const {
    const history::SentSegment* before = draft_.Before(out);
    if (before == nullptr || before->same != out.now->same || !out.unsaid.empty()) return;
    for (const std::string& line : draft_.FormBefore(out)->unsaid) {
      out.unsaid.push_back({.json = line, .is_news = false});
    }
  }

  // --- Lines that earlier requests carried

  // A line that its caller no longer says stays only in front of one that has replaced it. Such
  // lines pile up: when they exceed half of the body (16 KiB at least), all of them leave at once.
  void TakeBack() {
    if (!draft_.branch) return;
    const size_t most = std::max(kOutdatedBytes, draft_.body.size() / 2);
    if (OutdatedAfterTakingBack(false) <= most) return;
    OutdatedAfterTakingBack(true);
    draft_.notes.emplace_back("earlier values of moved lines leave, which breaks the prefix");
  }
  size_t OutdatedAfterTakingBack(bool all) {
    std::vector<CarriedLine> later;  // lines that are said behind this segment and still hold
    const auto is_placed = [&](const CarriedLine& line) { return WayOf(line) != Way::kNone; };
    const std::vector<CarriedLine> missing = Missing();
    std::copy_if(missing.begin(), missing.end(), std::back_inserter(later), is_placed);
    size_t outdated = 0;
    for (size_t i = draft_.segments.size(); i-- > 0;) {
      const std::vector<CarriedLine>* carried = said_.CarriedAgain(draft_.segments[i]);
      if (carried == nullptr) continue;
      std::vector<CarriedLine> current;
      bool stays = true;
      for (const CarriedLine& line : *carried) {
        const auto replaces = [&](const CarriedLine& other) {
          return other.json != line.json && AreOfOneSlot(line, other);
        };
        if (IsMovedLine(line)) {
          current.push_back(line);
        } else if (!all && std::any_of(later.begin(), later.end(), replaces)) {
          outdated += line.json.size();
        } else if (IsSaidByCaller(line)) {
          current.push_back(line);
        } else {
          stays = false;
        }
      }
      if (!stays) i = Restore(i);
      for (CarriedLine& line : current) {
        // The lines of a text that goes out without them are said at the end instead.
        if (stays || is_placed(line)) later.push_back(std::move(line));
      }
    }
    return outdated;
  }
  // Returns true if it is a line of this request that left its place.
  bool IsMovedLine(const CarriedLine& line) const {
    if (line.slot == 0) return said_.IsMoved(line.json);
    return std::any_of(slots_.begin(), slots_.end(), [&](const SlotText& slot) {
      return slot.slot == line.slot && slot.json == line.json;
    });
  }
  bool IsSaidByCaller(const CarriedLine& line) const {
    return IsMovedLine(line) || (line.slot == 0 && HasLine(draft_.body, line.json));
  }

  // The lines carried by a text that goes out unchanged are said again, because an earlier value
  // may stand between it and another place that says the line.
  void KeepCarried(const DraftSegment& out) {
    const std::vector<CarriedLine>* carried = said_.CarriedAgain(out);
    if (carried == nullptr) return;
    std::copy_if(carried->begin(), carried->end(), std::back_inserter(again_),
                 [&](const CarriedLine& line) { return line.slot == 0 && IsSaidByCaller(line); });
  }
  void LetGo(DraftSegment& out) {
    said_.Forget();
    KeepCarried(out);
    GoAsItCame(out);
  }

  // Sends the caller's own bytes, and returns the index of the first segment concerned. A whole
  // message that was put back in another form is replaced by its caller's message.
  size_t Restore(size_t index) {
    std::vector<DraftSegment>& segments = draft_.segments;
    if (segments[index].now != nullptr) {
      LetGo(segments[index]);
      return index;
    }
    said_.Forget();
    KeepCarried(segments[index]);
    if (draft_.Added(segments[index]).is_ours) {
      segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(index));
      FindCarrier();
      return index;
    }
    const auto is_block = [&](size_t i) {
      return segments[i].now == nullptr && draft_.Before(segments[i])->place.block >= 0;
    };
    size_t begin = index;
    while (begin > 0 && is_block(begin)) --begin;
    size_t end = begin + 1;
    while (end < segments.size() && is_block(end)) ++end;
    for (size_t i = end; i < segments.size() && segments[i].dropped; ++i) {
      if (segments[i].now->place.element != segments[end].now->place.element) break;
      GoAsItCame(segments[i]);
    }
    segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(begin),
                   segments.begin() + static_cast<std::ptrdiff_t>(end));
    FindCarrier();
    return begin;
  }

  // --- Lines that this request says

  // A text that was sent before is sent again with further lines. If it is in the last turn,
  // nothing was cached behind it.
  void Renew() {
    if (carrier_.segment->before < 0) return;
    const std::vector<CarriedLine> missing = Missing();
    const auto needs_text = [&](const CarriedLine& line) {
      const Way way = WayOf(line);
      return way == Way::kText || way == Way::kOldText;
    };
    if (std::none_of(missing.begin(), missing.end(), needs_text)) return;
    const parse::Place place = carrier_.segment->now->place;
    if (!IsInNewestTurn(*carrier_.segment)) {
      draft_.notes.push_back(parse::PathOf(place) +
                             ": no newer text can take new lines, which breaks the prefix here");
    }
    LetGo(*carrier_.segment);
  }

  // Returns the lines that no outgoing text says yet.
  std::vector<CarriedLine> Missing() const {
    std::vector<CarriedLine> missing;
    const auto add = [&](const CarriedLine& line) {
      if (std::find(missing.begin(), missing.end(), line) == missing.end()) missing.push_back(line);
    };
    for (const std::string& line : moved_) {
      if (!said_.IsMovedSaid(line)) add({.json = line});
    }
    for (const SlotText& line : slots_) {
      if (!said_.IsSlotSaid(line)) add({.json = line.json, .slot = line.slot});
    }
    for (const CarriedLine& line : again_) add(line);
    for (const DraftSegment& out : draft_.segments) {
      for (const UnsaidLine& line : out.unsaid) {
        if (!said_.IsSaid(line.json, line.is_news)) add({.json = line.json});
      }
    }
    return missing;
  }
  bool IsMissing(const DraftSegment& out) const {
    return std::any_of(out.unsaid.begin(), out.unsaid.end(), [&](const UnsaidLine& line) {
      return !said_.IsSaid(line.json, line.is_news);
    });
  }
  static bool IsOfSystem(const DraftSegment& out) {
    return out.now != nullptr && out.now->place.section == parse::Section::kSystem;
  }
  // Returns true if nothing can say a line of the system prompt or a slot, nor hold it.
  bool SystemIsMissing() const {
    const auto has_no_way = [&](const CarriedLine& line) { return WayOf(line) == Way::kNone; };
    const auto is_lost = [&](const DraftSegment& out) {
      return IsOfSystem(out) &&
             std::any_of(out.unsaid.begin(), out.unsaid.end(), [&](const UnsaidLine& line) {
               return !said_.IsSaid(line.json, line.is_news) && has_no_way({.json = line.json});
             });
    };
    return std::any_of(draft_.segments.begin(), draft_.segments.end(), is_lost) ||
           std::any_of(moved_.begin(), moved_.end(),
                       [&](const std::string& line) {
                         return !said_.IsMovedSaid(line) && has_no_way({.json = line});
                       }) ||
           std::any_of(slots_.begin(), slots_.end(), [&](const SlotText& line) {
             return !said_.IsSlotSaid(line) && has_no_way({.json = line.json, .slot = line.slot});
           });
  }
  static bool IsTool(const DraftSegment& out) {
    return out.now->place.section == parse::Section::kTools;
  }
  // Sends one turn or tool unchanged that no later text can speak for; false if there is none.
  // Lines that it carried then have to be said anew, so the caller asks again after each. The
  // values of a tool are held instead.
  bool HasOneGoAsItCame() {
    bool is_behind = carrier_.segment == nullptr;
    for (DraftSegment& out : draft_.segments) {
      is_behind = is_behind || &out == carrier_.segment;
      if (out.now == nullptr || IsOfSystem(out) || !is_behind || !IsMissing(out)) continue;
      if (IsTool(out) && MayMove()) continue;
      draft_.notes.push_back(parse::PathOf(out.now->place) +
                             ": no text of this request can take its new values, it goes out as "
                             "it came, which breaks the prefix");
      LetGo(out);
      return true;
    }
    return false;
  }

  // Says the missing lines, each in its way.
  void Append() {
    std::vector<CarriedLine> in_turn;
    std::vector<CarriedLine> in_text;
    for (CarriedLine& line : Missing()) {
      const Way way = WayOf(line);
      if (way == Way::kTurn) in_turn.push_back(std::move(line));
      if (way == Way::kText) in_text.push_back(std::move(line));
      if (way == Way::kHeld) ++draft_.num_held;
    }
    if (draft_.num_held > 0) {
      draft_.notes.push_back("held_stale: no text of this request can take the new values of " +
                             std::to_string(draft_.num_held) +
                             " line(s); the provider keeps the earlier ones until one can");
    }
    if (!in_text.empty()) AppendToText(std::move(in_text));
    if (!in_turn.empty()) AddSystemTurn(draft_, std::move(in_turn));  // moves the segments
  }
  void AppendToText(std::vector<CarriedLine> said) {
    // A user did not say the lines of the system prompt that are sentences, and a result holds
    // nothing that a user said. Lines of a user's own text keep their author.
    const auto is_plain = [&](const CarriedLine& line) {
      return !carrier_.is_result && said_.IsUsers(line);
    };
    const auto framed = std::stable_partition(said.begin(), said.end(), is_plain);
    const bool is_framed =
        carrier_.is_result ||
        std::any_of(framed, said.end(), [](const CarriedLine& line) { return line.slot != 0; });
    std::string added = "\\n";
    for (auto line = said.begin(); line != said.end(); ++line) {
      if (line == framed && is_framed) added += "\\n" + std::string(kFrameBegin);
      added += "\\n" + line->json;
    }
    if (is_framed) added += "\\n" + std::string(kFrameEnd);
    const parse::Span end = {carrier_.at, carrier_.at};
    carrier_.segment->inner.push_back(
        {parse::Rule::kVolatileMoved, end, added, parse::PathOf(carrier_.segment->now->place)});
    carrier_.segment->carried = std::move(said);
  }

  Draft& draft_;
  const std::vector<std::string>& moved_;
  const std::vector<SlotText>& slots_;
  Carrier carrier_;
  bool adds_turn_ = false;          // lines of the system prompt have a system turn
  std::vector<CarriedLine> again_;  // lines to say again although they stand somewhere
  SaidLines said_;
};

}  // namespace

std::vector<UnsaidLine> UnsaidLines(const Draft& draft, const DraftSegment& segment,
                                    const std::vector<std::string>& changed) {
  std::vector<UnsaidLine> lines;
  for (const std::string& text : changed) {
    const std::string quoted = parse::QuotedJson(text);
    lines.push_back({.json = quoted.substr(1, quoted.size() - 2), .is_news = true});
  }
  const history::CallerForm* form = draft.FormBefore(segment);
  if (form == nullptr) return lines;
  for (const std::string& line : form->unsaid) {
    if (HasLine(segment.now->span.In(draft.body), line)) lines.push_back({.json = line});
  }
  return lines;
}

bool WriteTail(Draft& draft, const TailLines& lines) { return TailWriter(draft, lines).Run(); }

}  // namespace kvgate::prompt::rewrite
