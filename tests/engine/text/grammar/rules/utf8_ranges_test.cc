#include "engine/text/grammar/rules/utf8_ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/utf8.h"

namespace kvgate::grammar::rules {
namespace {

int NumMatches(const std::vector<ByteSequence>& sequences, std::string_view text) {
  int num_matches = 0;
  for (const ByteSequence& sequence : sequences) {
    bool matches = sequence.length == text.size();
    for (size_t i = 0; i < text.size() && matches; ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      matches = sequence.ranges[i].first <= byte && byte <= sequence.ranges[i].last;
    }
    num_matches += matches ? 1 : 0;
  }
  return num_matches;
}

TEST(Utf8RangesTest, ARangeIsExactlyItsCharacters) {
  std::mt19937 random(2);
  const std::vector<CharRange> edges = {{0, 0x7F},           {0x80, 0x7FF}, {0, 0xD7FF},
                                        {0xE000, kLastChar}, {0x7F, 0x80},  {0xFFFF, 0x10000},
                                        {0x3FF, 0x400}};
  for (int round = 0; round < 200; ++round) {
    CharRange range;
    if (static_cast<size_t>(round) < edges.size()) {
      range = edges[static_cast<size_t>(round)];
    } else {
      const bool high = random() % 2 == 0;
      const char32_t base = high ? 0xE000 : 0;
      const char32_t span = high ? kLastChar - 0xE000 : 0xD7FF;
      range.first = base + random() % span;
      range.last = std::min<char32_t>(base + span, range.first + random() % 0x3000);
    }
    const auto sequences = Utf8Sequences(range);
    std::vector<char32_t> probes = {range.first, range.last, (range.first + range.last) / 2};
    if (range.first > 0) probes.push_back(range.first - 1);
    if (range.last < kLastChar) probes.push_back(range.last + 1);
    for (int i = 0; i < 50; ++i) probes.push_back(random() % (kLastChar + 1));
    for (const char32_t probe : probes) {
      if (probe >= 0xD800 && probe < 0xE000) continue;
      std::string text;
      AppendUtf8(probe, text);
      const bool wanted = range.first <= probe && probe <= range.last;
      ASSERT_EQ(NumMatches(sequences, text), wanted ? 1 : 0) << static_cast<uint32_t>(probe);
    }
  }
}

}  // namespace
}  // namespace kvgate::grammar::rules
