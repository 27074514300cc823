#include "engine/text/grammar/rules/char_set.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace kvgate::grammar::rules {
namespace {

constexpr char32_t kBeforeSurrogates = 0xD7FF;
constexpr char32_t kBehindSurrogates = 0xE000;

}  // namespace

CharSet::CharSet(std::initializer_list<CharRange> ranges) {
  for (const CharRange& range : ranges) Add(range);
}

void CharSet::Add(CharRange range) {
  if (range.first <= kBeforeSurrogates) {
    Insert({range.first, std::min(range.last, kBeforeSurrogates)});
  }
  if (range.last >= kBehindSurrogates) {
    Insert({std::max(range.first, kBehindSurrogates), range.last});
  }
}

CharSet CharSet::OfRanges(std::vector<CharRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CharRange& a, const CharRange& b) { return a.first < b.first; });
  CharSet set;
  for (const CharRange& range : ranges) set.Add(range);  // sorted: appends or extends the last
  return set;
}

void CharSet::Add(const CharSet& other) {
  if (other.ranges_.size() == 1) return Insert(other.ranges_.front());
  std::vector<CharRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  *this = OfRanges(std::move(both));
}

bool operator<(const CharSet& a, const CharSet& b) {
  return std::lexicographical_compare(a.ranges_.begin(), a.ranges_.end(), b.ranges_.begin(),
                                      b.ranges_.end(), [](const CharRange& x, const CharRange& y) {
                                        return std::pair(x.first, x.last) <
                                               std::pair(y.first, y.last);
                                      });
}

void CharSet::Insert(CharRange range) {
  // Finds the first range that touches the new one or lies after it.
  auto at = std::lower_bound(
      ranges_.begin(), ranges_.end(), range.first,
      [](const CharRange& a, char32_t first) { return uint64_t{a.last} + 1 < first; });
  auto end = at;
  while (end != ranges_.end() && end->first <= uint64_t{range.last} + 1) {
    range.first = std::min(range.first, end->first);
    range.last = std::max(range.last, end->last);
    ++end;
  }
  at = ranges_.erase(at, end);
  ranges_.insert(at, range);
}

CharSet CharSet::Complement() const {
  CharSet result;
  char32_t next = 0;
  for (const CharRange& range : ranges_) {
    if (range.first > next) result.Add({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastChar) result.Add({next, kLastChar});
  return result;
}

CharSet CharSet::Intersect(const CharSet& other) const {
  CharSet result;
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    const char32_t first = std::max(a->first, b->first);
    const char32_t last = std::min(a->last, b->last);
    if (first <= last) result.ranges_.push_back({first, last});
    a->last < b->last ? ++a : ++b;
  }
  return result;
}

bool CharSet::Contains(char32_t character) const {
  const auto at =
      std::lower_bound(ranges_.begin(), ranges_.end(), character,
                       [](const CharRange& range, char32_t wanted) { return range.last < wanted; });
  return at != ranges_.end() && at->first <= character;
}

}  // namespace kvgate::grammar::rules
