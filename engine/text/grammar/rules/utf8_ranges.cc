#include "engine/text/grammar/rules/utf8_ranges.h"

#include <string>

#include "base/utf8.h"

namespace kvgate::grammar::rules {
namespace {

// A range of characters of one length is a product of byte ranges only if all bytes after the first
// that differs take all their values. Otherwise the range is split.
void Split(CharRange range, std::vector<ByteSequence>& out) {
  for (const char32_t last : {char32_t{0x7F}, char32_t{0x7FF}, char32_t{0xFFFF}}) {
    if (range.first <= last && last < range.last) {
      Split({range.first, last}, out);
      Split({last + 1, range.last}, out);
      return;
    }
  }
  for (int bits = 6; bits <= 18; bits += 6) {
    const char32_t mask = (char32_t{1} << bits) - 1;
    if ((range.first & ~mask) == (range.last & ~mask)) break;
    if ((range.first & mask) != 0) {
      Split({range.first, range.first | mask}, out);
      Split({(range.first | mask) + 1, range.last}, out);
      return;
    }
    if ((range.last & mask) != mask) {
      Split({range.first, (range.last & ~mask) - 1}, out);
      Split({range.last & ~mask, range.last}, out);
      return;
    }
  }
  std::string first;
  std::string last;
  AppendUtf8(range.first, first);
  AppendUtf8(range.last, last);
  ByteSequence sequence{.length = first.size()};
  for (size_t i = 0; i < first.size(); ++i) {
    sequence.ranges[i] = {static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i])};
  }
  out.push_back(sequence);
}

}  // namespace

std::vector<ByteSequence> Utf8Sequences(CharRange range) {
  std::vector<ByteSequence> sequences;
  Split(range, sequences);
  return sequences;
}

}  // namespace kvgate::grammar::rules
