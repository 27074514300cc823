// CharSet: a set of Unicode scalar values (code points without the surrogates), as ranges.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

namespace kvgate::grammar::rules {

struct CharRange {
  char32_t first = 0;
  char32_t last = 0;  // inclusive
  friend bool operator==(const CharRange&, const CharRange&) = default;
};

inline constexpr char32_t kLastChar = 0x10FFFF;

class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<CharRange> ranges);
  static CharSet All() { return {{0, kLastChar}}; }
  static CharSet Of(char32_t character) { return {{character, character}}; }
  // Adds all ranges at once, in any order. Adding them one by one would take quadratic time.
  static CharSet OfRanges(std::vector<CharRange> ranges);

  // Surrogates in the range are skipped. REQUIRES: first <= last <= kLastChar.
  void Add(CharRange range);
  void Add(const CharSet& other);
  CharSet Complement() const;
  CharSet Intersect(const CharSet& other) const;
  CharSet Without(const CharSet& other) const { return Intersect(other.Complement()); }

  bool empty() const { return ranges_.empty(); }
  bool Contains(char32_t character) const;
  // Ascending; neighbouring ranges do not touch.
  std::span<const CharRange> ranges() const { return ranges_; }
  friend bool operator==(const CharSet&, const CharSet&) = default;
  // An arbitrary total order, so that sets can be keys of a map.
  friend bool operator<(const CharSet& a, const CharSet& b);

 private:
  void Insert(CharRange range);

  std::vector<CharRange> ranges_;
};

}  // namespace kvgate::grammar::rules
