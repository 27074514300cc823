#include "gateway/prompt/diagnose/repetition.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvgate::prompt::diagnose {

using history::SentRequest;
using history::SentSegment;
using parse::Section;

namespace {

using Segments = std::vector<const SentSegment*>;

bool IsTurn(const SentSegment& segment) { return segment.place.section == Section::kMessages; }

Segments TurnsOf(const SentRequest& request) {
  Segments turns;
  for (const SentSegment& segment : request.segments) {
    if (IsTurn(segment)) turns.push_back(&segment);
  }
  return turns;
}

// Returns the number of turns' segments with which both conversations begin.
size_t EqualTurns(const Segments& before, const Segments& now) {
  size_t equal = 0;
  while (equal < before.size() && equal < now.size() &&
         before[equal]->stable == now[equal]->stable) {
    ++equal;
  }
  return equal;
}

// The segments of a request that may be found in the other one.
struct Side {
  Segments comparable;
  double apart = 0;  // estimated tokens of turns that are not compared
};

Side SideOf(const SentRequest& request, size_t num_turns) {
  Side side;
  size_t turns = 0;
  for (const SentSegment& segment : request.segments) {
    if (IsTurn(segment) && turns++ >= num_turns) {
      side.apart += segment.num_tokens;
    } else {
      side.comparable.push_back(&segment);
    }
  }
  return side;
}

// Returns the number of bytes with which both texts begin and end. It is 0 if that is less than
// half of either, because all JSON has something in common.
size_t CommonBytes(std::string_view before, std::string_view now) {
  const size_t shorter = std::min(before.size(), now.size());
  const auto front = static_cast<size_t>(
      std::mismatch(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(shorter),
                    now.begin())
          .first -
      before.begin());
  size_t back = 0;
  while (back < shorter - front && before[before.size() - 1 - back] == now[now.size() - 1 - back]) {
    ++back;
  }
  const size_t common = front + back;
  return 2 * common >= std::max(before.size(), now.size()) ? common : 0;
}

double ShareOf(size_t common, std::string_view bytes) {
  return bytes.empty() ? 0 : static_cast<double>(common) / static_cast<double>(bytes.size());
}

uint64_t PlaceKey(const SentSegment& segment) {
  const auto part = [](int32_t index) { return static_cast<uint64_t>(index + 1) & 0x3FFFFFFF; };
  return static_cast<uint64_t>(segment.place.section) << 60 | part(segment.place.element) << 30 |
         part(segment.place.block);
}

// Divides the segments of `now` that have no equal one in `before` from those that have, and leaves
// in `gone` what of `before` is left over.
Segments TakeEqual(const Segments& before, const Segments& now, Segments& gone) {
  std::unordered_map<parse::Identity, Segments> known;
  // From the back, so that the first of several equal segments is taken first.
  for (size_t i = before.size(); i-- > 0;) known[before[i]->stable].push_back(before[i]);
  Segments added;
  for (const SentSegment* segment : now) {
    const auto found = known.find(segment->stable);
    if (found == known.end() || found->second.empty()) {
      added.push_back(segment);
    } else {
      found->second.pop_back();
    }
  }
  for (const auto& [identity, left] : known) gone.insert(gone.end(), left.begin(), left.end());
  return added;
}

}  // namespace

Repetition FindRepetition(const SentRequest& before, const SentRequest& now,
                          bool same_conversation) {
  size_t num_turns = ~size_t{0};
  if (!same_conversation) num_turns = EqualTurns(TurnsOf(before), TurnsOf(now));
  const Side was = SideOf(before, num_turns);
  const Side is = SideOf(now, num_turns);
  Repetition out{.new_tokens = is.apart, .gone_tokens = was.apart};
  Segments gone;
  const Segments added = TakeEqual(was.comparable, is.comparable, gone);
  std::unordered_map<uint64_t, const SentSegment*> by_place;
  for (const SentSegment* segment : gone) {
    out.gone_tokens += segment->num_tokens;
    by_place[PlaceKey(*segment)] = segment;
  }
  for (const SentSegment* segment : added) {
    out.new_tokens += segment->num_tokens;
    const auto found = by_place.find(PlaceKey(*segment));
    if (found == by_place.end()) continue;
    const SentSegment& old = *found->second;
    if (old.content != segment->content || !old.bytes || !segment->bytes) continue;
    const size_t common = CommonBytes(*old.bytes, *segment->bytes);
    out.gone_tokens -= old.num_tokens * ShareOf(common, *old.bytes);
    out.new_tokens -= segment->num_tokens * ShareOf(common, *segment->bytes);
  }
  return out;
}

}  // namespace kvgate::prompt::diagnose
