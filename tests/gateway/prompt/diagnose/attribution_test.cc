#include "gateway/prompt/diagnose/attribution.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "gateway/ledger/prices.h"

namespace kvgate::prompt::diagnose {

using parse::Section;
using parse::Source;

namespace {

using ledger::TokenUsage;
using upstream::wire::Endpoint;

history::SentSegment Of(Section section, Source source, uint32_t num_tokens) {
  history::SentSegment segment;
  segment.place.section = section;
  segment.source = source;
  segment.num_tokens = num_tokens;
  return segment;
}

SourceTokens Sum(const Attribution& sources) {
  SourceTokens sum;
  for (const SourceTokens& source : sources) {
    sum.cached += source.cached;
    sum.written += source.written;
    sum.uncached += source.uncached;
  }
  return sum;
}

SourceTokens At(const Attribution& sources, Source source) {
  return sources[static_cast<size_t>(source)];
}

history::SentSegments Prompt() {
  return {Of(Section::kTools, Source::kTools, 100), Of(Section::kSystem, Source::kSystem, 50),
          Of(Section::kMessages, Source::kHistory, 200),
          Of(Section::kMessages, Source::kRetrieval, 50),
          Of(Section::kMessages, Source::kUser, 100)};
}

TEST(AttributionTest, TheFrontOfThePromptIsCachedThenWrittenThenNeither) {
  const Attribution sources = Attribute(Prompt(), {.uncached_tokens = 200,
                                                   .cache_read_tokens = 400,
                                                   .cache_write_tokens = 300,
                                                   .cache_write_1h_tokens = 100});
  EXPECT_EQ(At(sources, Source::kTools), (SourceTokens{.cached = 200}));
  EXPECT_EQ(At(sources, Source::kSystem), (SourceTokens{.cached = 100}));
  EXPECT_EQ(At(sources, Source::kHistory), (SourceTokens{.cached = 100, .written = 300}));
  EXPECT_EQ(At(sources, Source::kRetrieval), (SourceTokens{.written = 100}));
  EXPECT_EQ(At(sources, Source::kUser), (SourceTokens{.uncached = 200}));
}

TEST(AttributionTest, RunsOfOneSourceAreInTheOrderOfRenderingAndSumToTheTokens) {
  history::SentSegments prompt = Prompt();
  prompt.push_back(Of(Section::kMessages, Source::kUser, 500));
  const std::vector<SourceRun> runs = RunsOf(prompt, 1001, true);
  ASSERT_EQ(runs.size(), 5u);
  EXPECT_EQ(runs[0].source, Source::kSystem);
  EXPECT_EQ(runs[1].source, Source::kTools);
  EXPECT_EQ(runs[4].source, Source::kUser);
  int64_t sum = 0;
  for (const SourceRun& run : runs) sum += run.num_tokens;
  EXPECT_EQ(sum, 1001);
  EXPECT_EQ(RunsOf(prompt, 1001)[0].source, Source::kTools);
}

TEST(AttributionTest, V14TheFrontIsWhatTheProviderRendersFirst) {
  const TokenUsage usage = {.uncached_tokens = 450, .cache_read_tokens = 50};
  EXPECT_EQ(At(Attribute(Prompt(), usage, false), Source::kTools).cached, 50);
  EXPECT_EQ(At(Attribute(Prompt(), usage, true), Source::kTools).cached, 0);
  EXPECT_EQ(At(Attribute(Prompt(), usage, true), Source::kSystem).cached, 50);
}

TEST(AttributionTest, A1A4SumsAreTheReportedCountsExactlyWhateverTheEstimates) {
  std::mt19937 random(9);
  for (int i = 0; i < 5'000; ++i) {
    history::SentSegments segments;
    for (size_t k = random() % 40; k > 0; --k) {
      segments.push_back(Of(static_cast<Section>(random() % 3),
                            static_cast<Source>(random() % parse::kNumSources),
                            random() % 4 == 0 ? 0 : random() % 10'000));
    }
    const auto count = [&] {
      return random() % 3 == 0 ? int64_t{0} : static_cast<int64_t>(random() % 300'000);
    };
    const TokenUsage usage = {.uncached_tokens = count(),
                              .cache_read_tokens = count(),
                              .cache_write_tokens = count(),
                              .cache_write_1h_tokens = count(),
                              .output_tokens = count()};
    const SourceTokens sum = Sum(Attribute(segments, usage, i % 2 == 0));
    EXPECT_EQ(sum.cached, usage.cache_read_tokens);
    EXPECT_EQ(sum.written, usage.cache_write_tokens + usage.cache_write_1h_tokens);
    EXPECT_EQ(sum.uncached, usage.uncached_tokens);
  }
}

// The same answer counted inclusively and exclusively gives the same tokens by source.
TEST(AttributionTest, A1A6BothConventionsOfCountingGiveTheSameTokens) {
  ledger::ReportedUsage exclusive;
  exclusive.Set(ledger::UsageField::kInputTokens, 20);
  exclusive.Set(ledger::UsageField::kCacheRead, 300);
  exclusive.Set(ledger::UsageField::kCacheCreation, 180);
  ledger::ReportedUsage inclusive;
  inclusive.Set(ledger::UsageField::kPromptTokens, 500);
  inclusive.Set(ledger::UsageField::kPromptCached, 300);
  inclusive.Set(ledger::UsageField::kPromptCacheWrite, 180);
  const Attribution one = Attribute(Prompt(), *Normalize(exclusive, Endpoint::kMessages));
  EXPECT_EQ(one, Attribute(Prompt(), *Normalize(inclusive, Endpoint::kChatCompletions)));
  EXPECT_EQ(Sum(one).cached + Sum(one).written + Sum(one).uncached, 500);
}

// In BerriAI/litellm#9812 the input was 3 tokens, the cache creation 12,304 and the output 550.
TEST(AttributionTest, A2A5TokensOfTheCacheAreTokens) {
  const TokenUsage usage = {
      .uncached_tokens = 3, .cache_write_tokens = 12'304, .output_tokens = 550};
  const SourceTokens sum = Sum(Attribute(Prompt(), usage));
  EXPECT_EQ(sum, (SourceTokens{.written = 12'304, .uncached = 3}));
}

// Both events of a stream report counts; merged, they count once.
TEST(AttributionTest, A3CountsThatAStreamTellsTwiceAreCountedOnce) {
  ledger::ReportedUsage start;
  start.Set(ledger::UsageField::kInputTokens, 20);
  start.Set(ledger::UsageField::kCacheRead, 300);
  ledger::ReportedUsage end = start;
  end.Set(ledger::UsageField::kOutputTokens, 7);
  start.MergeMax(end);
  EXPECT_EQ(Sum(Attribute(Prompt(), *Normalize(start, Endpoint::kMessages))),
            (SourceTokens{.cached = 300, .uncached = 20}));
}

TEST(AttributionTest, OfAPromptWithoutSegmentsAllIsTheUsers) {
  const Attribution sources = Attribute({}, {.uncached_tokens = 2, .cache_read_tokens = 1});
  EXPECT_EQ(At(sources, Source::kUser), (SourceTokens{.cached = 1, .uncached = 2}));
  const std::vector<SourceRun> runs = RunsOf({}, 3);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].source, Source::kUser);
  EXPECT_EQ(runs[0].num_tokens, 3);
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
