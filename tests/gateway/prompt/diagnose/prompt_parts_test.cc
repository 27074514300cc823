#include "gateway/prompt/diagnose/prompt_parts.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>

namespace kvgate::prompt::diagnose {
namespace {

using parse::Section;
using parse::Source;

history::SentSegment Of(Section section, Source source, int32_t element, uint32_t num_tokens) {
  history::SentSegment segment;
  segment.place = {.section = section,
                   .field = section == Section::kTools    ? "tools"
                            : section == Section::kSystem ? "system"
                                                          : "messages",
                   .element = element};
  segment.source = source;
  segment.role = section == Section::kMessages ? parse::Role::kUser : parse::Role::kNone;
  segment.num_tokens = num_tokens;
  segment.stable = {.low = num_tokens, .high = static_cast<uint64_t>(source)};
  segment.bytes = std::make_shared<const std::string>("{}");
  return segment;
}

TEST(PromptPartsTest, APartShowsItsPlaceAndItsTokens) {
  SegmentNames names;
  const history::SentSegments segments = {Of(Section::kTools, Source::kTools, 3, 10),
                                          Of(Section::kSystem, Source::kSystem, -1, 10),
                                          Of(Section::kMessages, Source::kUser, 0, 20)};
  const AttributeArgs args{.segments = segments,
                           .usage = {.uncached_tokens = 30, .cache_read_tokens = 10}};
  const auto parts = PartsOf(args, AttributeSegments(args), names);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].path, "/tools/3");
  EXPECT_EQ(parts[0].cached, 10);
  EXPECT_EQ(parts[1].path, "/system");
  EXPECT_EQ(parts[2].path, "/messages/0");
  EXPECT_EQ(parts[2].role, "user");
  EXPECT_EQ(parts[2].bytes, 2);
  EXPECT_EQ(parts[2].uncached, 20);
}

TEST(PromptPartsTest, TheSumsBySourceAreExactAndTheRowsBoundedWhateverThePrompt) {
  std::mt19937 random(17);
  SegmentNames names;
  for (int round = 0; round < 200; ++round) {
    history::SentSegments segments;
    for (int i = 0, count = static_cast<int>(random() % 700); i < count; ++i) {
      segments.push_back(Of(static_cast<Section>(random() % 3),
                            static_cast<Source>(random() % parse::kNumSources), i, random() % 500));
    }
    const ledger::reply::TokenUsage usage = {
        .uncached_tokens = static_cast<int64_t>(random() % 9'999),
        .cache_read_tokens = static_cast<int64_t>(random() % 9'999),
        .cache_write_tokens = static_cast<int64_t>(random() % 99)};
    const AttributeArgs args{.segments = segments, .usage = usage};
    const Attributed attributed = AttributeSegments(args);
    const Attribution sources = SumBySource(args, attributed);
    const auto parts = PartsOf(args, attributed, names);
    EXPECT_LE(parts.size(), ledger::segment::kSegmentsMax);
    std::map<std::string, SourceTokens> sums;
    for (const auto& part : parts) {
      SourceTokens& sum = sums[part.source];
      sum.cached += part.cached;
      sum.written += part.written;
      sum.uncached += part.uncached;
    }
    for (size_t i = 0; i < parse::kNumSources; ++i) {
      EXPECT_EQ(sums[std::string(parse::SourceName(static_cast<Source>(i)))], sources[i]);
    }
  }
}

TEST(PromptPartsTest, PromptsWithTheSameToolsAndSystemHaveOneName) {
  const auto system = Of(Section::kSystem, Source::kSystem, -1, 7);
  const std::string one = PromptIdOf({system, Of(Section::kMessages, Source::kUser, 0, 1)});
  EXPECT_EQ(one, PromptIdOf({system, Of(Section::kMessages, Source::kUser, 0, 99)}));
  EXPECT_NE(one, PromptIdOf({Of(Section::kTools, Source::kTools, 0, 5), system}));
  EXPECT_EQ(one.size(), 16U);
  EXPECT_EQ(PromptIdOf({Of(Section::kMessages, Source::kUser, 0, 1)}), "");
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
