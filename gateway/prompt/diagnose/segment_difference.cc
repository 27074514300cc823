#include "gateway/prompt/diagnose/segment_difference.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "gateway/prompt/diagnose/json_difference.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/request_layout.h"
#include "gateway/prompt/parse/volatile_text.h"

namespace kvgate::prompt::diagnose {

using history::SentSegment;
using parse::PathOf;

namespace {

using Kind = JsonDifference::Kind;

std::string_view BytesOf(const SentSegment& segment) {
  return segment.bytes == nullptr ? std::string_view() : std::string_view(*segment.bytes);
}

bool SentAlike(const SentSegment& before, const SentSegment& now) {
  return before.sent_raw == now.sent_raw && before.role == now.role && before.place == now.place;
}

size_t FirstUnlike(const SegmentList& before, const SegmentList& now) {
  size_t i = 0;
  while (i < before.size() && i < now.size() && SentAlike(*before[i], *now[i])) ++i;
  return i;
}

// Returns the kind of the volatile text in which the difference begins; empty if it is not in one.
std::string_view VolatileKindAt(std::string_view before, std::string_view after) {
  const std::string left = parse::TextOrJson(before);
  const std::string right = parse::TextOrJson(after);
  const auto unlike = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  const auto at = static_cast<size_t>(unlike.first - left.begin());
  for (const std::string* text : {&right, &left}) {
    for (const parse::VolatileSpan& span : parse::FindVolatile(*text)) {
      if (span.begin <= at && at <= span.end) return parse::VolatileKindName(span.kind);
    }
  }
  return {};
}

// Returns the kind of the first volatile text of a segment that consists of nothing else.
std::string_view VolatileKindOf(const SentSegment& segment) {
  if (!segment.is_volatile) return {};
  const std::string_view bytes = BytesOf(segment);
  std::string_view value = FindJsonValue(bytes, "text");
  if (value.empty()) value = FindJsonValue(bytes, "content");
  const std::vector<parse::VolatileSpan> spans =
      parse::FindVolatile(parse::TextOrJson(value.empty() ? bytes : value));
  return spans.empty() ? std::string_view() : parse::VolatileKindName(spans.front().kind);
}

// Describes two segments at the same place with different bytes.
SegmentDifference InPlace(BreakCause cause, const SentSegment& before, const SentSegment& now,
                          size_t index) {
  SegmentDifference out{.cause = cause, .path = PathOf(now.place), .index = index};
  out.same_value = before.same == now.same;
  if (before.bytes == nullptr || now.bytes == nullptr) return out;
  const JsonDifference inner = FindJsonDifference(*before.bytes, *now.bytes);
  out.path += inner.path;
  out.before = inner.kind == Kind::kNone ? BytesOf(before) : inner.before;
  out.after = inner.kind == Kind::kNone ? BytesOf(now) : inner.after;
  if (!out.same_value && before.stable == now.stable) {
    out.volatile_kind = VolatileKindAt(out.before, out.after);
  }
  return out;
}

// Describes a segment that only one of the lists has.
SegmentDifference Alone(BreakCause cause, const SentSegment& segment, bool is_new, size_t index) {
  SegmentDifference out{.cause = cause, .path = PathOf(segment.place), .index = index};
  out.volatile_kind = VolatileKindOf(segment);
  (is_new ? out.after : out.before) = BytesOf(segment);
  return out;
}

// --- tools --------------------------------------------------------------------------------------

// Returns the name of each tool, for a provider's own tool its type, else its value's identity.
// Repeated names get a number, so that each is distinct.
std::vector<std::string> NamesOf(const SegmentList& tools) {
  std::vector<std::string> names;
  std::map<std::string, int> counts;
  for (const SentSegment* tool : tools) {
    const std::string_view bytes = BytesOf(*tool);
    std::string_view name = FindJsonValue(bytes, "function.name");
    if (name.empty()) name = FindJsonValue(bytes, "name");
    if (name.empty()) name = FindJsonValue(bytes, "type");
    std::string known = name.empty() ? ToHex(tool->same) : std::string(name);
    if (const int count = counts[known]++; count > 0) known += "#" + std::to_string(count);
    names.push_back(std::move(known));
  }
  return names;
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// --- turns --------------------------------------------------------------------------------------

bool IsHead(const SentSegment& segment) { return segment.content == parse::Content::kMessageHead; }

size_t SkipHeads(const SegmentList& list, size_t at) {
  while (at < list.size() && IsHead(*list[at])) ++at;
  return at;
}

// Short texts such as "continue" and "ok" are repeated often, so their position tells nothing.
bool IsTelling(const SentSegment& segment) {
  constexpr uint32_t kTokensMin = 12;
  return segment.num_tokens >= kTokensMin || segment.is_volatile;
}

// The positions from which both lists are equal again behind a difference.
struct Resync {
  size_t before = 0;
  size_t now = 0;
};

// Finds the nearest pair of equal segments from `at` on whose successors are equal too. Message
// heads are skipped, because they are all alike.
std::optional<Resync> FindResync(const SegmentList& before, const SegmentList& now, size_t at) {
  std::unordered_map<parse::Identity, std::vector<size_t>> places;
  for (size_t j = at; j < now.size(); ++j) {
    if (!IsHead(*now[j])) places[now[j]->same].push_back(j);
  }
  const auto next_alike = [&](size_t i, size_t j) {
    const size_t next = SkipHeads(before, i + 1);
    const size_t other = SkipHeads(now, j + 1);
    if (next >= before.size() || other >= now.size()) return IsTelling(*before[i]);
    return before[next]->same == now[other]->same;
  };
  std::optional<Resync> best;
  size_t distance = ~size_t{0};
  for (size_t i = at; i < before.size() && i - at < distance; ++i) {
    if (IsHead(*before[i])) continue;
    const auto found = places.find(before[i]->same);
    if (found == places.end()) continue;
    for (const size_t j : found->second) {
      if ((i - at) + (j - at) >= distance) break;
      if (!next_alike(i, j)) continue;
      distance = (i - at) + (j - at);
      best = Resync{i, j};
      break;
    }
  }
  return best;
}

std::string ElementPath(const SentSegment& segment) {
  parse::Place place = segment.place;
  place.block = -1;
  return PathOf(place);
}

// Returns true for the same value, or for a volatile segment that differs in its values only.
bool IsIt(const SentSegment& other, const SentSegment& segment) {
  return other.same == segment.same || (segment.is_volatile && other.stable == segment.stable);
}

// Finds the value in the list from `at` on, in a later element than that of `segment`.
std::optional<size_t> FindLater(const SegmentList& list, size_t at, const SentSegment& segment) {
  for (size_t j = at; j < list.size(); ++j) {
    if (IsIt(*list[j], segment) && list[j]->place.element > segment.place.element) return j;
  }
  return std::nullopt;
}

// Reports a block that has moved to a later turn. The blocks that stood behind it must stand in
// front of it, otherwise something was inserted instead.
std::optional<SegmentDifference> FindMoved(const SegmentList& before, const SegmentList& now,
                                           size_t at) {
  const size_t from = SkipHeads(before, at);
  if (from >= before.size()) return std::nullopt;
  const SentSegment& block = *before[from];
  if (!IsTelling(block)) return std::nullopt;
  const std::optional<size_t> later = FindLater(now, at, block);
  if (!later) return std::nullopt;
  const auto is_it = [&](const SentSegment* other) { return IsIt(*other, block); };
  const auto left =
      std::count_if(before.begin() + static_cast<std::ptrdiff_t>(from) + 1, before.end(), is_it);
  const auto right = std::count_if(now.begin() + static_cast<std::ptrdiff_t>(at), now.end(), is_it);
  if (right <= left) return std::nullopt;
  const size_t next = SkipHeads(before, from + 1);
  const auto is_assistant = [](const SentSegment* other) {
    return other->role == parse::Role::kAssistant;
  };
  const auto here = now.begin() + static_cast<std::ptrdiff_t>(at);
  const auto there = now.begin() + static_cast<std::ptrdiff_t>(*later);
  bool passed =
      std::any_of(here, there, is_assistant) && std::none_of(there, now.end(), is_assistant);
  if (next < before.size()) {
    const parse::Identity& same = before[next]->same;
    const auto follower = std::find_if(
        here, now.end(), [&](const SentSegment* other) { return other->same == same; });
    if (follower != now.end()) passed = follower < there;
  }
  if (!passed) return std::nullopt;
  SegmentDifference out = Alone(BreakCause::kBlockMoved, block, false, at);
  if (at < now.size()) out.after = BytesOf(*now[at]);
  return out;
}

SegmentDifference WholeTurn(BreakCause cause, const SentSegment& segment, bool is_new, size_t at) {
  SegmentDifference out = Alone(cause, segment, is_new, at);
  out.path = ElementPath(segment);
  return out;
}

// Returns true if a new text stands in `now` where turns of `before` are missing: it says that it
// is a summary, or it is none of the assistant's and kept turns follow it.
bool IsCompaction(const SegmentList& before, const SegmentList& now, size_t at,
                  const std::optional<Resync>& resync) {
  const size_t text = SkipHeads(now, at);
  const size_t end = resync ? resync->now : now.size();
  if (text >= end || now[text]->content != parse::Content::kText) {
    return text < end && now[text]->source == parse::Source::kSummary;
  }
  const SentSegment& added = *now[text];
  const bool is_new = std::none_of(before.begin(), before.end(), [&](const SentSegment* other) {
    return other->same == added.same;
  });
  if (!is_new) return false;
  if (added.source == parse::Source::kSummary) return true;
  constexpr int32_t kTurnsMin = 2;  // fewer in place of one are an edit
  return resync && added.role != parse::Role::kAssistant && IsTelling(added) &&
         before[resync->before]->place.element - before[at]->place.element >= kTurnsMin;
}

// Handles turns or blocks that only one list has, up to the position where both are equal again.
std::optional<SegmentDifference> CompareAround(const SegmentList& before, const SegmentList& now,
                                               size_t at, BreakCause edited, BreakCause missing) {
  const std::optional<Resync> resync = FindResync(before, now, at);
  const SentSegment& left = *before[at];
  const SentSegment& right = *now[at];
  if (missing != edited && IsCompaction(before, now, at, resync)) {
    SegmentDifference out = WholeTurn(BreakCause::kCompacted, left, false, at);
    out.after = BytesOf(*now[SkipHeads(now, at)]);
    return out;
  }
  if (!resync) {
    const bool fewer = before.back()->place.element > now.back()->place.element;
    if (!fewer || missing == edited) return std::nullopt;
    return WholeTurn(missing, left, false, at);
  }
  const int32_t shift = before[resync->before]->place.element - now[resync->now]->place.element;
  if (shift > 0) return WholeTurn(missing, left, false, at);
  if (shift < 0) return WholeTurn(edited, right, true, at);
  if (SkipHeads(before, at) == resync->before) return Alone(edited, right, true, at);
  if (SkipHeads(now, at) == resync->now) return Alone(edited, left, false, at);
  return std::nullopt;
}

}  // namespace

bool IsSearchTool(const SentSegment& tool) {
  // Most tools do not contain the word at all, so they need not be parsed.
  const std::string_view bytes = BytesOf(tool);
  return bytes.find("\"web_search") != std::string_view::npos &&
         FindJsonValue(bytes, "type").starts_with("\"web_search");
}

std::optional<SegmentDifference> CompareTools(const SegmentList& before, const SegmentList& now) {
  size_t at = 0;
  while (at < before.size() && at < now.size() && before[at]->sent_raw == now[at]->sent_raw) ++at;
  if (at == before.size() && at == now.size()) return std::nullopt;
  const std::vector<std::string> were = NamesOf(before);
  const std::vector<std::string> are = NamesOf(now);
  if (at < now.size() && !Contains(were, are[at])) {
    return Alone(BreakCause::kToolAdded, *now[at], true, at);
  }
  if (at < before.size() && !Contains(are, were[at])) {
    return Alone(BreakCause::kToolRemoved, *before[at], false, at);
  }
  if (at < before.size() && at < now.size() && were[at] == are[at]) {
    return InPlace(BreakCause::kToolChanged, *before[at], *now[at], at);
  }
  SegmentDifference out{.cause = BreakCause::kToolsReordered, .index = at};
  out.path = PathOf((at < now.size() ? now : before)[at]->place);
  if (at < before.size()) out.before = BytesOf(*before[at]);
  if (at < now.size()) out.after = BytesOf(*now[at]);
  out.same_value = true;
  return out;
}

std::optional<SegmentDifference> CompareSystem(const SegmentList& before, const SegmentList& now) {
  constexpr BreakCause kCause = BreakCause::kSystemChanged;
  const size_t at = FirstUnlike(before, now);
  if (at == before.size() && at == now.size()) return std::nullopt;
  if (at == before.size()) return Alone(kCause, *now[at], true, at);
  if (at == now.size()) return Alone(kCause, *before[at], false, at);
  const bool lists = before[at]->place.element >= 0 && now[at]->place.element >= 0;
  if (!lists) {
    SegmentDifference out = InPlace(kCause, *before[at], *now[at], at);
    if (!(before[at]->place == now[at]->place)) out.path = now[at]->place.field;
    return out;
  }
  std::optional<SegmentDifference> found = CompareAround(before, now, at, kCause, kCause);
  return found ? *found : InPlace(kCause, *before[at], *now[at], at);
}

std::optional<SegmentDifference> CompareTurns(const SegmentList& before, const SegmentList& now) {
  const size_t at = FirstUnlike(before, now);
  if (at == before.size()) return std::nullopt;
  const SentSegment& left = *before[at];
  const bool in_place = at < now.size() && left.place == now[at]->place &&
                        left.role == now[at]->role && !IsHead(left);
  if (in_place && (left.same == now[at]->same || left.stable == now[at]->stable)) {
    return InPlace(BreakCause::kHistoryEdited, left, *now[at], at);
  }
  if (std::optional<SegmentDifference> moved = FindMoved(before, now, at)) return moved;
  if (at == now.size()) {
    const bool in_last = at > 0 && now.back()->place.element == left.place.element;
    return in_last ? Alone(BreakCause::kHistoryEdited, left, false, at)
                   : WholeTurn(BreakCause::kHistoryTruncated, left, false, at);
  }
  const SentSegment& right = *now[at];
  if (auto found = CompareAround(before, now, at, BreakCause::kHistoryEdited,
                                 BreakCause::kHistoryTruncated)) {
    return found;
  }
  // The last block of a message was removed or added.
  if (left.place.element < right.place.element) {
    return Alone(BreakCause::kHistoryEdited, left, false, at);
  }
  if (left.place.element > right.place.element) {
    return Alone(BreakCause::kHistoryEdited, right, true, at);
  }
  return InPlace(BreakCause::kHistoryEdited, left, right, at);
}

}  // namespace kvgate::prompt::diagnose
