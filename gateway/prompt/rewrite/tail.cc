#include "gateway/prompt/rewrite/tail.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "gateway/prompt/parse/breakpoints.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/parse/volatile_line.h"
#include "gateway/prompt/rewrite/carrier.h"
#include "gateway/prompt/templates/text_lines.h"

namespace kvgate::prompt::rewrite {

using templates::CarriedLine;

namespace {

// Outdated lines of this total size may stay in any request.
constexpr size_t kOutdatedBytes = 16U << 10;

// Returns true if `line` stands somewhere in `json` as a whole between spaces, tags or line ends.
bool HasLine(std::string_view json, std::string_view line) {
  const auto begins = [&](size_t at) {
    if (at == 0 || json[at - 1] == '"' || json[at - 1] == '>' || json[at - 1] == ' ') return true;
    return at > 1 && json[at - 2] == '\\';
  };
  const auto ends = [&](size_t at) {
    return at == json.size() || json[at] == '"' || json[at] == '<' || json[at] == '\\';
  };
  for (size_t at = json.find(line); at != std::string_view::npos; at = json.find(line, at + 1)) {
    if (begins(at) && ends(at + line.size())) return true;
  }
  return false;
}

bool IsIn(const std::vector<std::string>& lines, std::string_view line) {
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

// AreOfOneSlot for two lines in JSON spelling.
bool AreOfOneSlotJson(std::string_view a, std::string_view b) {
  const auto quoted = [](std::string_view line) { return "\"" + std::string(line) + "\""; };
  std::string before;
  std::string now;
  return parse::DecodeString(quoted(a), before) && parse::DecodeString(quoted(b), now) &&
         (parse::AreOfOneSlot(before, now) || templates::ChangedValues(before, now));
}

// Returns true if the two say the same thing at two times.
bool AreOfOneSlot(const CarriedLine& a, const CarriedLine& b) {
  if (a.slot != 0 || b.slot != 0) return a.slot == b.slot;
  return AreOfOneSlotJson(a.json, b.json);
}

class TailWriter {
 public:
  TailWriter(Draft& draft, const TailLines& lines)
      : draft_(draft), moved_(lines.moved), slots_(lines.slots) {}

  bool Run() {
    for (DraftSegment& out : draft_.segments) {
      if (out.now != nullptr) TakeOver(out);
    }
    FindCarrier();
    TakeBack();
    FindCarrier();
    while (HasOneGoAsItCame()) {
    }
    if (carrier_.segment == nullptr) {
      if (SystemIsMissing()) return false;
    } else {
      Renew();
      while (HasOneGoAsItCame()) {
      }
      Append();
    }
    if (draft_.lines_move) draft_.tail = moved_;
    return true;
  }

 private:
  void FindCarrier() {
    carrier_ = draft_.Allows(parse::Rule::kVolatileMoved) ? NewestCarrier(draft_) : Carrier{};
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

  // Returns the other segments' lines in bytes that go out again; null if there are none.
  const std::vector<CarriedLine>* CarriedAgain(const DraftSegment& out) const {
    const history::CallerForm* form = draft_.FormBefore(out);
    if (form == nullptr || form->carried.empty() || out.dropped) return nullptr;
    const history::SentSegment& before = *draft_.Before(out);
    const bool again = out.now == nullptr || (out.bytes && out.bytes == before.bytes) ||
                       before.same == out.now->same;
    return again ? &form->carried : nullptr;
  }

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
    const bool has_carrier = carrier_.segment != nullptr;
    if (has_carrier) later = Missing();
    size_t outdated = 0;
    for (size_t i = draft_.segments.size(); i-- > 0;) {
      const std::vector<CarriedLine>* carried = CarriedAgain(draft_.segments[i]);
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
        if (stays || has_carrier) later.push_back(std::move(line));
      }
    }
    return outdated;
  }
  // Returns true if it is a line of this request that left its place.
  bool IsMovedLine(const CarriedLine& line) const {
    if (line.slot == 0) return IsIn(moved_, line.json);
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
    const std::vector<CarriedLine>* carried = CarriedAgain(out);
    if (carried == nullptr) return;
    std::copy_if(carried->begin(), carried->end(), std::back_inserter(again_),
                 [&](const CarriedLine& line) { return line.slot == 0 && IsSaidByCaller(line); });
  }
  void LetGo(DraftSegment& out) {
    said_slots_.reset();
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
    said_slots_.reset();
    KeepCarried(segments[index]);
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
    return begin;
  }

  // --- Lines that this request says

  // A text that was sent before is sent again with further lines. If it is in the last turn,
  // nothing was cached behind it.
  void Renew() {
    if (carrier_.segment->before < 0 || Missing().empty()) return;
    const parse::Place place = carrier_.segment->now->place;
    if (place.element != draft_.layout.segments.back().place.element) {
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
      if (!IsMovedSaid(line)) add({.json = line});
    }
    for (const SlotText& line : slots_) {
      if (!IsSlotSaid(line)) add({.json = line.json, .slot = line.slot});
    }
    for (const CarriedLine& line : again_) add(line);
    for (const DraftSegment& out : draft_.segments) {
      for (const UnsaidLine& line : out.unsaid) {
        if (!IsSaid(line.json, line.is_news)) add({.json = line.json});
      }
    }
    return missing;
  }
  bool IsUsers(const CarriedLine& line) const {
    return line.slot != 0 && std::any_of(slots_.begin(), slots_.end(), [&](const SlotText& slot) {
             return slot.slot == line.slot && slot.is_users;
           });
  }
  // Returns true if the provider's newest line of the slot is this one.
  bool IsSlotSaid(const SlotText& line) const {
    const std::vector<CarriedLine>& said = SaidSlots();
    const auto found = std::find_if(said.begin(), said.end(),
                                    [&](const CarriedLine& it) { return it.slot == line.slot; });
    return found != said.end() ? found->json == line.json : line.first == line.json;
  }
  // Returns the newest line of each slot of this request that goes out again.
  const std::vector<CarriedLine>& SaidSlots() const {
    if (said_slots_) return *said_slots_;
    said_slots_.emplace();
    const auto is_asked = [&](const CarriedLine& line) {
      const auto is_one = [&](const auto& it) { return it.slot == line.slot; };
      return std::any_of(slots_.begin(), slots_.end(), is_one) &&
             std::none_of(said_slots_->begin(), said_slots_->end(), is_one);
    };
    for (auto out = draft_.segments.rbegin(); out != draft_.segments.rend(); ++out) {
      if (said_slots_->size() == slots_.size()) break;
      const std::vector<CarriedLine>* carried = CarriedAgain(*out);
      if (carried == nullptr) continue;
      std::copy_if(carried->begin(), carried->end(), std::back_inserter(*said_slots_), is_asked);
    }
    return *said_slots_;
  }
  bool IsMovedSaid(const std::string& line) const {
    return IsIn(draft_.tail, line) && IsSaid(line, false);
  }
  bool IsMissing(const DraftSegment& out) const {
    return std::any_of(out.unsaid.begin(), out.unsaid.end(),
                       [&](const UnsaidLine& line) { return !IsSaid(line.json, line.is_news); });
  }
  static bool IsOfSystem(const DraftSegment& out) {
    return out.now != nullptr && out.now->place.section == parse::Section::kSystem;
  }
  bool SystemIsMissing() const {
    return std::any_of(draft_.segments.begin(), draft_.segments.end(),
                       [&](const auto& out) { return IsOfSystem(out) && IsMissing(out); }) ||
           !std::all_of(moved_.begin(), moved_.end(),
                        [&](const std::string& line) { return IsMovedSaid(line); }) ||
           !std::all_of(slots_.begin(), slots_.end(),
                        [&](const SlotText& line) { return IsSlotSaid(line); });
  }
  // Sends one turn or tool unchanged that no later text can speak for; false if there is none.
  // Lines that it carried then have to be said anew, so the caller asks again after each.
  bool HasOneGoAsItCame() {
    bool is_behind = carrier_.segment == nullptr;
    for (DraftSegment& out : draft_.segments) {
      is_behind = is_behind || &out == carrier_.segment;
      if (out.now == nullptr || IsOfSystem(out) || !is_behind || !IsMissing(out)) continue;
      draft_.notes.push_back(parse::PathOf(out.now->place) +
                             ": no text of this request can take its new values, it goes out as "
                             "it came, which breaks the prefix");
      LetGo(out);
      return true;
    }
    return false;
  }

  void Append() {
    std::vector<CarriedLine> said = Missing();
    if (said.empty()) return;
    // A user did not say the lines of the system prompt that are sentences, and a result holds
    // nothing that a user said. Lines of a user's own text keep their author.
    const auto is_plain = [&](const CarriedLine& line) {
      return !carrier_.is_result && IsUsers(line);
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
    carrier_.segment->carried = said;
  }

  // Returns true if an outgoing turn of a user, program or tool says the line; with `in_new`, only
  // turns that were not sent before count.
  bool IsSaid(std::string_view line, bool in_new) const {
    for (auto out = draft_.segments.rbegin(); out != draft_.segments.rend(); ++out) {
      if (out->dropped || (in_new && out->before >= 0)) continue;
      const parse::Segment* now = out->now;
      if (now != nullptr && now->place.section != parse::Section::kMessages) break;
      const parse::Role role = now != nullptr ? now->role : draft_.Before(*out)->role;
      const parse::Content content = now != nullptr ? now->content : draft_.Before(*out)->content;
      if (role == parse::Role::kAssistant || content == parse::Content::kMessageHead) continue;
      if (HasLine(OutgoingOf(*out), line)) return true;
    }
    return false;
  }
  // Returns the bytes that the rules for equal values will choose.
  std::string_view OutgoingOf(const DraftSegment& out) const {
    if (out.bytes) return *out.bytes;
    const history::SentSegment* before = draft_.Before(out);
    if (before != nullptr && before->bytes && before->same == out.now->same) return *before->bytes;
    return out.now->span.In(draft_.body);
  }

  Draft& draft_;
  const std::vector<std::string>& moved_;
  const std::vector<SlotText>& slots_;
  Carrier carrier_;
  std::vector<CarriedLine> again_;  // lines to say again although they stand somewhere
  mutable std::optional<std::vector<CarriedLine>> said_slots_;  // while no segment is let go
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
