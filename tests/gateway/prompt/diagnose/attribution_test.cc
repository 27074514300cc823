#include "gateway/prompt/diagnose/attribution.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "gateway/ledger/prices.h"

namespace kvgate::prompt::diagnose {

using parse::Section;
using parse::Source;

namespace {

using dialect::form::Endpoint;
using ledger::reply::TokenUsage;

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
  const auto runs_of = [&](int64_t tokens, bool tools_after_system) {
    const TokenUsage usage = {.uncached_tokens = tokens};
    const AttributeArgs args{
        .segments = prompt, .usage = usage, .tools_after_system = tools_after_system};
    return RunsOf(args, AttributeSegments(args));
  };
  const std::vector<SourceRun> runs = runs_of(1001, true);
  ASSERT_EQ(runs.size(), 5u);
  EXPECT_EQ(runs[0].source, Source::kSystem);
  EXPECT_EQ(runs[1].source, Source::kTools);
  EXPECT_EQ(runs[4].source, Source::kUser);
  int64_t sum = 0;
  for (const SourceRun& run : runs) sum += run.num_tokens;
  EXPECT_EQ(sum, 1001);
  EXPECT_EQ(runs_of(1001, false)[0].source, Source::kTools);
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
  ledger::reply::ReportedUsage exclusive;
  exclusive.Set(ledger::reply::UsageField::kInputTokens, 20);
  exclusive.Set(ledger::reply::UsageField::kCacheRead, 300);
  exclusive.Set(ledger::reply::UsageField::kCacheCreation, 180);
  ledger::reply::ReportedUsage inclusive;
  inclusive.Set(ledger::reply::UsageField::kPromptTokens, 500);
  inclusive.Set(ledger::reply::UsageField::kPromptCached, 300);
  inclusive.Set(ledger::reply::UsageField::kPromptCacheWrite, 180);
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
  ledger::reply::ReportedUsage start;
  start.Set(ledger::reply::UsageField::kInputTokens, 20);
  start.Set(ledger::reply::UsageField::kCacheRead, 300);
  ledger::reply::ReportedUsage end = start;
  end.Set(ledger::reply::UsageField::kOutputTokens, 7);
  start.MergeMax(end);
  EXPECT_EQ(Sum(Attribute(Prompt(), *Normalize(start, Endpoint::kMessages))),
            (SourceTokens{.cached = 300, .uncached = 20}));
}

TEST(AttributionTest, OfAPromptWithoutSegmentsAllIsTheUsers) {
  const Attribution sources = Attribute({}, {.uncached_tokens = 2, .cache_read_tokens = 1});
  EXPECT_EQ(At(sources, Source::kUser), (SourceTokens{.cached = 1, .uncached = 2}));
  const history::SentSegments none;
  const TokenUsage usage = {.uncached_tokens = 3};
  const AttributeArgs args{.segments = none, .usage = usage};
  const std::vector<SourceRun> runs = RunsOf(args, AttributeSegments(args));
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].source, Source::kUser);
  EXPECT_EQ(runs[0].num_tokens, 3);
}

history::SentSegment At(int32_t element, Source source, uint32_t num_tokens) {
  history::SentSegment segment = Of(Section::kMessages, source, num_tokens);
  segment.place.field = "messages";
  segment.place.element = element;
  if (source == Source::kToolResults) segment.content = parse::Content::kToolResult;
  return segment;
}

Attribution Counted(const history::SentSegments& segments, const std::vector<CountedRun>& runs,
                    int64_t cached) {
  int64_t sum = 0;
  for (const CountedRun& run : runs) sum += run.num_tokens;
  const TokenUsage usage = {.uncached_tokens = sum - cached, .cache_read_tokens = cached};
  const AttributeArgs args{.segments = segments, .usage = usage, .runs = runs};
  const Attributed attributed = AttributeSegments(args);
  EXPECT_TRUE(attributed.is_counted);
  const Attribution sources = SumBySource(args, attributed);
  EXPECT_EQ(Sum(sources), (SourceTokens{.cached = cached, .uncached = sum - cached}));
  return sources;
}

TEST(AttributionTest, CountedPartsKeepTheirTokensWhateverTheEstimates) {
  const history::SentSegments prompt = {
      Of(Section::kTools, Source::kTools, 1), Of(Section::kSystem, Source::kSystem, 1'000),
      At(0, Source::kHistory, 3), At(1, Source::kHistory, 1), At(2, Source::kUser, 900)};
  // The template writes the system text, then the tools, then the end of that turn.
  const Attribution sources = Counted(prompt,
                                      {{.last_element = -1, .num_tokens = 11},
                                       {.is_tools = true, .last_element = -1, .num_tokens = 50},
                                       {.last_element = -1, .num_tokens = 2},
                                       {.last_element = 1, .num_tokens = 40},
                                       {.last_element = 2, .num_tokens = 7}},
                                      30);
  EXPECT_EQ(At(sources, Source::kSystem), (SourceTokens{.cached = 11, .uncached = 2}));
  EXPECT_EQ(At(sources, Source::kTools), (SourceTokens{.cached = 19, .uncached = 31}));
  EXPECT_EQ(At(sources, Source::kHistory), (SourceTokens{.uncached = 40}));
  EXPECT_EQ(At(sources, Source::kUser), (SourceTokens{.uncached = 7}));
}

TEST(AttributionTest, ResultsOfToolsAndTextInOneTurnAreToldApart) {
  const history::SentSegments prompt = {At(0, Source::kToolResults, 1), At(0, Source::kUser, 1)};
  const Attribution sources = Counted(prompt,
                                      {{.is_results = true, .last_element = 0, .num_tokens = 90},
                                       {.last_element = 0, .num_tokens = 10}},
                                      95);
  EXPECT_EQ(At(sources, Source::kToolResults), (SourceTokens{.cached = 90}));
  EXPECT_EQ(At(sources, Source::kUser), (SourceTokens{.cached = 5, .uncached = 5}));
}

TEST(AttributionTest, CountsThatAreNotThePromptsAreNotUsed) {
  const history::SentSegments prompt = Prompt();
  const TokenUsage usage = {.uncached_tokens = 100};
  const std::vector<CountedRun> runs = {{.last_element = 9, .num_tokens = 99}};
  const AttributeArgs args{.segments = prompt, .usage = usage, .runs = runs};
  const Attributed attributed = AttributeSegments(args);
  EXPECT_FALSE(attributed.is_counted);
  EXPECT_EQ(SumBySource(args, attributed), Attribute(prompt, usage));
}

TEST(AttributionTest, RandomPartsSumToTheirPrompt) {
  std::mt19937 random(23);
  for (int round = 0; round < 2'000; ++round) {
    history::SentSegments segments;
    if (random() % 2 == 0) segments.push_back(Of(Section::kTools, Source::kTools, 5));
    if (random() % 2 == 0) segments.push_back(Of(Section::kSystem, Source::kSystem, 9));
    for (int32_t i = 0, count = static_cast<int32_t>(random() % 9); i < count; ++i) {
      segments.push_back(At(i, static_cast<Source>(random() % parse::kNumSources), random() % 50));
    }
    if (segments.empty()) continue;
    std::vector<CountedRun> runs;
    int32_t last = -1;
    for (size_t i = 1 + random() % 6; i > 0; --i) {
      runs.push_back({.is_tools = random() % 8 == 0,
                      .is_results = random() % 4 == 0,
                      .last_element = last,
                      .num_tokens = static_cast<int64_t>(random() % 100)});
      last += static_cast<int32_t>(random() % 3);
    }
    int64_t sum = 0;
    for (const CountedRun& run : runs) sum += run.num_tokens;
    Counted(segments, runs, sum == 0 ? 0 : static_cast<int64_t>(random()) % (sum + 1));
  }
}

TEST(AttributionTest, CutsAreWhereTheSourceChanges) {
  const history::SentSegments prompt = {Of(Section::kSystem, Source::kSystem, 9),
                                        At(0, Source::kHistory, 1),
                                        At(1, Source::kHistory, 1),
                                        At(2, Source::kToolResults, 1),
                                        At(3, Source::kHistory, 1),
                                        At(4, Source::kUser, 1)};
  EXPECT_EQ(CutsOf(prompt, 16), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(CutsOf(prompt, 2), (std::vector<int32_t>{2, 3}));
  EXPECT_TRUE(CutsOf({}, 2).empty());
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
