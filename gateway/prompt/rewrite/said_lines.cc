#include "gateway/prompt/rewrite/said_lines.h"

#include <algorithm>

#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/volatile_line.h"
#include "gateway/prompt/rewrite/system_turn.h"
#include "gateway/prompt/templates/text_lines.h"

namespace kvgate::prompt::rewrite {

using templates::CarriedLine;

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

bool AreOfOneSlotJson(std::string_view a, std::string_view b) {
  const auto quoted = [](std::string_view line) { return "\"" + std::string(line) + "\""; };
  std::string before;
  std::string now;
  return parse::DecodeString(quoted(a), before) && parse::DecodeString(quoted(b), now) &&
         (parse::AreOfOneSlot(before, now) || templates::ChangedValues(before, now));
}

bool SaidLines::IsMoved(std::string_view line) const {
  return std::find(lines_.moved.begin(), lines_.moved.end(), line) != lines_.moved.end();
}

bool SaidLines::IsMovedSaid(const std::string& line) const {
  // The newest one counts: an earlier value may have come back.
  if (const std::optional<SaidSlot> newest = NewestLike(line)) {
    return !newest->is_cleared && newest->line.json == line;
  }
  return std::find(draft_.tail.begin(), draft_.tail.end(), line) != draft_.tail.end() &&
         IsSaid(line, false);
}

bool SaidLines::IsSaid(std::string_view line, bool in_new) const {
  for (size_t i = draft_.segments.size(); i-- > 0;) {
    const DraftSegment& out = draft_.segments[i];
    if (IsCleared(draft_, i) || out.dropped || (in_new && out.before >= 0)) continue;
    const parse::Segment* now = out.now;
    if (now != nullptr && now->place.section != parse::Section::kMessages) break;
    const parse::Role role = now != nullptr ? now->role : draft_.Added(out).role;
    const parse::Content content = now != nullptr ? now->content : draft_.Added(out).content;
    if (role == parse::Role::kAssistant || content == parse::Content::kMessageHead) continue;
    if (HasLine(OutgoingOf(out), line)) return true;
  }
  return false;
}

std::string_view SaidLines::OutgoingOf(const DraftSegment& out) const {
  if (out.bytes) return *out.bytes;
  const history::SentSegment* before = draft_.Before(out);
  if (before != nullptr && before->bytes && before->same == out.now->same) return *before->bytes;
  return out.now->span.In(draft_.body);
}

const std::vector<CarriedLine>* SaidLines::CarriedAgain(const DraftSegment& out) const {
  const history::CallerForm* form = draft_.FormBefore(out);
  if (form == nullptr || form->carried.empty() || out.dropped) return nullptr;
  const history::SentSegment& before = *draft_.Before(out);
  const bool again = out.now == nullptr || (out.bytes && out.bytes == before.bytes) ||
                     before.same == out.now->same;
  return again ? &form->carried : nullptr;
}

const SlotText* SaidLines::SlotOf(const CarriedLine& line) const {
  const auto found = std::find_if(lines_.slots.begin(), lines_.slots.end(),
                                  [&](const SlotText& it) { return it.slot == line.slot; });
  return found == lines_.slots.end() ? nullptr : &*found;
}

// Returns true if a segment of the section has the line among its unsaid ones.
bool SaidLines::IsUnsaidIn(parse::Section section, std::string_view line) const {
  return std::any_of(draft_.segments.begin(), draft_.segments.end(), [&](const auto& out) {
    return out.now != nullptr && out.now->place.section == section &&
           std::any_of(out.unsaid.begin(), out.unsaid.end(),
                       [&](const UnsaidLine& it) { return it.json == line; });
  });
}

bool SaidLines::IsSystems(const CarriedLine& line) const {
  if (line.slot == 0) {
    return IsMoved(line.json) || IsUnsaidIn(parse::Section::kSystem, line.json);
  }
  const SlotText* const slot = SlotOf(line);
  return slot != nullptr && slot->place == templates::Place::kSystem;
}

bool SaidLines::IsUsers(const CarriedLine& line) const {
  const SlotText* const slot = line.slot == 0 ? nullptr : SlotOf(line);
  return slot != nullptr && slot->place == templates::Place::kFirstUser;
}

bool SaidLines::HasEarlier(const CarriedLine& line) const {
  if (line.slot != 0) {
    const SlotText* const slot = SlotOf(line);
    const std::optional<std::string> sent = slot == nullptr ? std::nullopt : SentOf(*slot);
    return sent && AreOfOneSlotJson(*sent, line.json);
  }
  if (!IsMoved(line.json)) {
    // Their first values stand in their places.
    return IsUnsaidIn(parse::Section::kSystem, line.json) ||
           IsUnsaidIn(parse::Section::kTools, line.json);
  }
  const std::optional<SaidSlot> newest = NewestLike(line.json);
  return newest && !newest->is_cleared;
}

std::optional<SaidLines::SaidSlot> SaidLines::NewestLike(const std::string& line) const {
  for (size_t i = draft_.segments.size(); i-- > 0;) {
    const std::vector<CarriedLine>* carried = CarriedAgain(draft_.segments[i]);
    if (carried == nullptr) continue;
    const auto found = std::find_if(carried->begin(), carried->end(), [&](const auto& it) {
      return it.slot == 0 && (it.json == line || AreOfOneSlotJson(it.json, line));
    });
    if (found != carried->end())
      return SaidSlot{.line = *found, .is_cleared = IsCleared(draft_, i)};
  }
  return std::nullopt;
}

std::optional<std::string> SaidLines::SentOf(const SlotText& line) const {
  for (const SaidSlot& said : SaidSlots()) {
    if (said.line.slot != line.slot) continue;
    return said.is_cleared ? std::nullopt : std::optional(said.line.json);
  }
  return line.first;
}

const std::vector<SaidLines::SaidSlot>& SaidLines::SaidSlots() const {
  if (slots_) return *slots_;
  slots_.emplace();
  for (size_t i = draft_.segments.size(); i-- > 0 && slots_->size() < lines_.slots.size();) {
    const std::vector<CarriedLine>* carried = CarriedAgain(draft_.segments[i]);
    if (carried == nullptr) continue;
    for (const CarriedLine& line : *carried) {
      const bool is_known = std::any_of(slots_->begin(), slots_->end(), [&](const SaidSlot& it) {
        return it.line.slot == line.slot;
      });
      if (line.slot == 0 || is_known || SlotOf(line) == nullptr) continue;
      slots_->push_back({.line = line, .is_cleared = IsCleared(draft_, i)});
    }
  }
  return *slots_;
}

}  // namespace kvgate::prompt::rewrite
