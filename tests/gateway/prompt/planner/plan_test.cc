#include "gateway/prompt/planner/plan.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gateway/prompt/plan_simulation.h"

namespace kvgate::prompt::planner {

using parse::Breakpoint;
using parse::BreakpointKind;

namespace {

using namespace simulation;  // NOLINT: all of it is meant
using dialect::form::Endpoint;

const ledger::PriceRow& Opus() { return Row("anthropic", "claude-opus-5"); }
const ledger::PriceRow& Sol() { return Row("openai", "gpt-6-sol"); }
const ledger::PriceRow& Gpt55() { return Row("openai", "gpt-5.5"); }

// PlanTest has one planner and the requests of one test, each with its own segments.
class PlanTest : public testing::Test {
 protected:
  Plan Make(std::vector<Block> blocks, const ledger::PriceRow& row = Opus(),
            Endpoint endpoint = Endpoint::kMessages) {
    request_.blocks = std::move(blocks);
    segments_ = SegmentsOf(request_.blocks);
    PlanArgs args = ArgsOf(request_, segments_, row, endpoint);
    args.automatic = automatic_;
    args.ttl_supported = ttl_supported_;
    args.caller_has_key = caller_has_key_;
    args.caller_has_options = caller_has_options_;
    plan_ = planner_->Make(args);
    return plan_;
  }

  // Learns the answer to the last request as Anthropic would bill it.
  void Answer() {
    const Bill bill = cache_.Send(segments_, plan_, request_.time_us);
    planner_->Learn({.conversation = IdentityOf(request_.conversation),
                     .plan = plan_.id,
                     .shape = IdentityOf(request_.shape),
                     .cache_read_tokens = static_cast<int64_t>(bill.read),
                     .cache_write_tokens = static_cast<int64_t>(bill.written),
                     .input_tokens = static_cast<int64_t>(bill.input),
                     .estimated_tokens = static_cast<int64_t>(bill.input),
                     .now_us = request_.time_us + 5 * kSecondUs});
  }

  void Wait(int64_t time_us) { request_.time_us += time_us; }
  void Converse(const std::string& name) { request_.conversation = name; }

  static std::vector<size_t> Places(const Plan& plan) {
    std::vector<size_t> places;
    for (const PlannedBreakpoint& breakpoint : plan.breakpoints)
      places.push_back(breakpoint.segment);
    return places;
  }

  const std::unique_ptr<Planner> planner_ = Planner::Make(Planner::Options());
  Request request_{.time_us = kMinuteUs, .conversation = "c", .shape = "s", .blocks = {}};
  MessagesCache cache_{Opus(), 2 * kSecondUs};
  std::vector<PlanSegment> segments_;
  Plan plan_;
  std::optional<Breakpoint> automatic_;
  bool ttl_supported_ = true;
  bool caller_has_key_ = false;
  bool caller_has_options_ = false;
};

using Indices = std::vector<size_t>;
constexpr Breakpoint kHour{BreakpointKind::kCacheControl, 3600};
constexpr Breakpoint kFiveMinutes{BreakpointKind::kCacheControl, 300};

Block Volatile(Block block) {
  block.is_volatile = true;
  return block;
}
Block Marked(Block block, Breakpoint breakpoint = kFiveMinutes) {
  block.breakpoint = breakpoint;
  return block;
}

std::vector<Block> AgentStart() {
  return {Tool("t1", 2000), Tool("t2", 2000), System("s", 1000), User("task", 500)};
}

TEST_F(PlanTest, AnAgentGetsItsSharedPrefixAndItsNewestBlockMarked) {
  const Plan plan = Make(AgentStart());
  EXPECT_EQ(Places(plan), (Indices{2, 3}));
  EXPECT_EQ(plan.breakpoints[0].breakpoint, kFiveMinutes);
  EXPECT_EQ(plan.reason, "expected reuse");
  EXPECT_GT(plan.expected_reuse, 0.5);
  EXPECT_TRUE(plan.prompt_cache_key.empty());
}

TEST_F(PlanTest, ALoneQuestionIsNotMarkedUntilItsPrefixHasComeAgain) {
  const std::vector<Block> shared = {System("s", 4000)};
  const auto ask = [&](const std::string& name) {
    Converse(name);
    std::vector<Block> blocks = shared;
    blocks.push_back(User(name, 200));
    const Plan plan = Make(blocks);
    Wait(10 * kSecondUs);
    return plan;
  };
  EXPECT_EQ(ask("one").reason, "reuse not expected");
  EXPECT_EQ(Places(ask("two")), (Indices{0})) << "the shared part only";
}

TEST_F(PlanTest, V4TheLastMarkerStandsInFrontOfWhatIsVolatile) {
  std::vector<Block> blocks = AgentStart();
  blocks.push_back(Volatile(User("12345 tokens left", 20)));
  EXPECT_EQ(Places(Make(blocks)), (Indices{2, 3}));
}

TEST_F(PlanTest, V4ACallersMarkerOnAVolatileBlockMovesInFrontOfItOnceOneHasVanished) {
  std::vector<Block> blocks = AgentStart();
  blocks.push_back(Marked(Volatile(User("12345 tokens left", 20))));
  EXPECT_EQ(Places(Make(blocks)), (Indices{2, 3, 4})) << "as it would be written in any case";
  Answer();
  Wait(20 * kSecondUs);
  blocks.back() = Assistant("a", 300);
  blocks.push_back(User("b", 300));
  blocks.push_back(Marked(Volatile(User("11111 tokens left", 20))));
  EXPECT_EQ(Places(Make(blocks)).back(), 5U);
}

TEST_F(PlanTest, V6GitStatusAtTheEndOfTheSystemPromptStandsBehindTheMarker) {
  const std::vector<Block> blocks = {Tool("t", 4000), System("stable", 1000),
                                     Volatile(System("git status", 100)), User("task", 900)};
  EXPECT_EQ(Places(Make(blocks)), (Indices{1})) << "nothing behind it is found again";
}

TEST_F(PlanTest, V6GitStatusThatStaysInAConversationIsNoBarrier) {
  std::vector<Block> blocks = {Tool("t", 4000), System("stable", 1000),
                               Volatile(System("git status", 100)), User("task", 900)};
  Make(blocks);
  Answer();
  Wait(20 * kSecondUs);
  blocks.push_back(Assistant("a", 300));
  blocks.push_back(User("b", 300));
  EXPECT_EQ(Places(Make(blocks)), (Indices{1, 5}));
}

TEST_F(PlanTest, V3CountersThatAreLeftInPlaceDoNotEndTheChain) {
  std::vector<Block> blocks = AgentStart();
  std::vector<size_t> last;
  for (int turn = 0; turn < 5; ++turn) {
    blocks.push_back(Volatile(User("left: " + std::to_string(turn), 10)));
    blocks.push_back(Assistant("a" + std::to_string(turn), 300));
    blocks.push_back(User("u" + std::to_string(turn), 300));
    last = Places(Make(blocks));
    Answer();
    Wait(20 * kSecondUs);
  }
  EXPECT_EQ(last.back(), blocks.size() - 1) << "they have always stayed";
}

TEST_F(PlanTest, V19EmptyAndThinkingBlocksAreNeverMarked) {
  std::vector<Block> blocks = AgentStart();
  Block empty = User("", 0);
  empty.markable = false;
  Block thinking = Assistant("thought", 200);
  thinking.content = parse::Content::kThinking;
  blocks.push_back(thinking);
  blocks.push_back(Marked(empty));
  EXPECT_EQ(Places(Make(blocks)), (Indices{2, 3})) << "the caller's moves to where one can stand";
}

TEST_F(PlanTest, G7TheConversationIsMarkedWhereTheCallerMarksTheSystemOnly) {
  std::vector<Block> blocks = AgentStart();
  blocks[2] = Marked(blocks[2]);
  EXPECT_EQ(Places(Make(blocks)), (Indices{2, 3}));
}

TEST_F(PlanTest, G8NoTtlGoesToAnUpstreamThatTakesNone) {
  ttl_supported_ = false;
  std::vector<Block> blocks = AgentStart();
  blocks[2] = Marked(blocks[2], kHour);
  automatic_ = kHour;
  const Plan plan = Make(blocks);
  for (const PlannedBreakpoint& breakpoint : plan.breakpoints)
    EXPECT_EQ(breakpoint.breakpoint, kFiveMinutes);
  EXPECT_EQ(plan.automatic, kFiveMinutes);
}

TEST_F(PlanTest, G9TheAutomaticMarkerBecomesABlocksWhereItIsNotTaken) {
  automatic_ = kFiveMinutes;
  const Plan plan = Make(AgentStart(), Row("bedrock", "anthropic.claude-opus-5"));
  EXPECT_EQ(plan.automatic, std::nullopt);
  EXPECT_EQ(Places(plan), (Indices{2, 3}));
}

TEST_F(PlanTest, G9TheAutomaticMarkerStaysWhereItIsTaken) {
  automatic_ = kFiveMinutes;
  const Plan plan = Make(AgentStart());
  EXPECT_EQ(plan.automatic, kFiveMinutes);
  EXPECT_EQ(Places(plan), (Indices{2}));
}

TEST_F(PlanTest, V4TheAutomaticMarkerGivesWayToOneInFrontOfWhatHasVanished) {
  automatic_ = kFiveMinutes;
  std::vector<Block> blocks = AgentStart();
  blocks.push_back(Volatile(User("12345 tokens left", 20)));
  EXPECT_EQ(Places(Make(blocks)), (Indices{2, 3}));
  EXPECT_EQ(plan_.automatic, kFiveMinutes);
  Answer();
  Wait(20 * kSecondUs);
  blocks.back() = Assistant("a", 300);
  blocks.push_back(Volatile(User("11111 tokens left", 20)));
  EXPECT_EQ(Places(Make(blocks)).back(), 4U);
  EXPECT_EQ(plan_.automatic, std::nullopt);
}

TEST_F(PlanTest, G10FourMarkersGoOutHoweverManyTheCallerHas) {
  std::vector<Block> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(Marked(User(std::to_string(i), 1000)));
  blocks.insert(blocks.begin(), Marked(System("s", 2000)));
  const Plan five = Make(blocks);
  EXPECT_EQ(five.breakpoints.size(), 4U);
  EXPECT_EQ(five.breakpoints.back().segment, 8U) << "the newest is the last to be given up";
  automatic_ = kFiveMinutes;
  const Plan with_automatic = Make(blocks);
  EXPECT_EQ(with_automatic.breakpoints.size(), 3U);
}

TEST_F(PlanTest, TheLongerTtlStandsFirst) {
  std::vector<Block> blocks = AgentStart();
  blocks[3] = Marked(blocks[3], kHour);
  const Plan plan = Make(blocks);
  ASSERT_EQ(Places(plan), (Indices{2, 3}));
  EXPECT_EQ(plan.breakpoints[0].breakpoint, kHour) << "what is added in front of it";
  EXPECT_EQ(plan.breakpoints[1].breakpoint, kHour);
}

TEST_F(PlanTest, NothingIsMarkedBelowTheMinimumOfTheModel) {
  const std::vector<Block> blocks = {Tool("t", 300), System("s", 300), User("task", 300)};
  EXPECT_EQ(Places(Make(blocks)), (Indices{1, 2})) << "512 of Opus 5";
  Converse("other");
  const Plan haiku = Make(blocks, Row("anthropic", "claude-haiku-4-5"));
  EXPECT_TRUE(haiku.breakpoints.empty());
  EXPECT_EQ(haiku.reason, "below the minimum");
}

TEST_F(PlanTest, TheMinimumIsJudgedByWhatTheProviderCounts) {
  const std::vector<Block> blocks = {Tool("t", 300), System("s", 100)};
  EXPECT_TRUE(Make(blocks).breakpoints.empty());
  planner_->Learn({.conversation = IdentityOf("c"),
                   .shape = IdentityOf("s"),
                   .input_tokens = 600,
                   .estimated_tokens = 400,
                   .now_us = request_.time_us + kSecondUs});
  Wait(20 * kSecondUs);
  EXPECT_EQ(Places(Make(blocks)), (Indices{1}));
}

TEST_F(PlanTest, NoMoreThanTheLookbackPilesUpBehindTheLastEntry) {
  std::vector<Block> blocks = AgentStart();
  Make(blocks);
  Answer();
  Wait(20 * kSecondUs);
  for (int i = 0; i < 50; ++i) blocks.push_back(User("b" + std::to_string(i), 100));
  const Indices places = Places(Make(blocks));
  EXPECT_EQ(places.size(), 4U);
  EXPECT_EQ(places.back(), 53U);
  const auto reaches = [&](size_t place) { return place >= 3 && place < 3 + 20; };
  EXPECT_TRUE(std::ranges::any_of(places, reaches)) << "one finds the entry at 3";
}

TEST_F(PlanTest, EntriesOfBeforeARestartAreFoundByStrides) {
  std::vector<Block> blocks = AgentStart();
  for (int i = 0; i < 45; ++i) blocks.push_back(Assistant("b" + std::to_string(i), 100));
  const Indices places = Places(Make(blocks));
  EXPECT_EQ(places, (Indices{2, 8, 28, 48}));
}

TEST_F(PlanTest, AConversationOfBeforeARestartGoesOn) {
  request_.blocks = {System("s", 300), User("q", 3000), User("next", 200)};
  segments_ = SegmentsOf(request_.blocks);
  PlanArgs args = ArgsOf(request_, segments_, Opus());
  EXPECT_TRUE(planner_->Preview(args).breakpoints.empty()) << "a lone question";
  args.first_of_conversation = false;
  EXPECT_EQ(Places(planner_->Preview(args)).back(), 2U);
}

TEST_F(PlanTest, AColdBurstWritesWhatItSharesOnce) {
  const auto start = [&](const char* name) {
    Converse(name);
    std::vector<Block> blocks = AgentStart();
    blocks[3].text = name;
    return Places(Make(blocks));
  };
  EXPECT_EQ(start("first"), (Indices{2, 3}));
  const uint64_t first = plan_.id;
  for (const char* name : {"second", "third", "fourth"}) {
    Wait(100'000);
    EXPECT_EQ(start(name), Indices()) << "the first one's entry cannot be read yet";
  }
  Converse("first");
  planner_->Learn({.conversation = IdentityOf("first"),
                   .plan = first,
                   .shape = IdentityOf("s"),
                   .cache_write_tokens = 5500,
                   .input_tokens = 5500,
                   .estimated_tokens = 5500,
                   .now_us = request_.time_us});
  Wait(100'000);
  const Indices fifth = start("fifth");
  ASSERT_FALSE(fifth.empty());
  EXPECT_EQ(fifth.front(), 2U) << "now it can";
}

TEST_F(PlanTest, AnAnswerThatNeverCameLeavesNothingToReadOrPay) {
  const std::vector<Block> blocks = AgentStart();
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(Places(Make(blocks)), (Indices{2, 3})) << i;
    planner_->Forget(IdentityOf("c"), plan_.id);
    Wait(kSecondUs);
  }
}

// The client has an answer a little before it is accounted for.
TEST_F(PlanTest, AnAnswerAccountedForBehindTheNextRequestCostsTheOneAfterNothing) {
  constexpr int kNumTurns = 8;
  const auto reads_of = [&](int late_turn) {
    const auto planner = Planner::Make(Planner::Options());
    MessagesCache cache(Opus(), 50'000);
    Request request{
        .time_us = kMinuteUs, .conversation = "c", .shape = "s", .blocks = AgentStart()};
    std::vector<double> reads;
    std::optional<Planner::Outcome> late;
    for (int turn = 0; turn < kNumTurns; ++turn) {
      const std::vector<PlanSegment> segments = SegmentsOf(request.blocks);
      const PlanArgs args = ArgsOf(request, segments, Opus());
      const Plan plan = planner->Make(args);
      const Bill bill = cache.Send(segments, plan, request.time_us);
      reads.push_back(bill.read);
      const Planner::Outcome outcome{.conversation = args.conversation,
                                     .plan = plan.id,
                                     .shape = args.shape,
                                     .cache_read_tokens = static_cast<int64_t>(bill.read),
                                     .cache_write_tokens = static_cast<int64_t>(bill.written),
                                     .input_tokens = static_cast<int64_t>(bill.input),
                                     .estimated_tokens = static_cast<int64_t>(bill.input),
                                     .now_us = request.time_us + 100'000};
      if (late) planner->Learn(*std::exchange(late, std::nullopt));
      if (turn == late_turn) {
        late = outcome;
      } else {
        planner->Learn(outcome);
      }
      request.time_us += 200'000;
      request.blocks.push_back(Assistant("a" + std::to_string(turn), 600));
      request.blocks.push_back(User("u" + std::to_string(turn), 600));
    }
    return reads;
  };
  const std::vector<double> in_time = reads_of(-1);
  EXPECT_GT(in_time.back(), 0);
  for (int late = 0; late + 2 < kNumTurns; ++late) {
    const std::vector<double> reads = reads_of(late);
    // A shape's first write is not followed by a second one until it is known to have been read.
    for (int turn = late + (late == 0 ? 3 : 2); turn < kNumTurns; ++turn) {
      EXPECT_EQ(reads[turn], in_time[turn]) << "turn " << turn << ", late is " << late;
    }
  }
}

TEST_F(PlanTest, APreviewIsWhatWouldGoOutAndChangesNothing) {
  request_.blocks = AgentStart();
  segments_ = SegmentsOf(request_.blocks);
  const PlanArgs args = ArgsOf(request_, segments_, Opus());
  for (int i = 0; i < 30; ++i) EXPECT_EQ(Places(planner_->Preview(args)), (Indices{2, 3}));
  EXPECT_EQ(Places(planner_->Make(args)), (Indices{2, 3}));
}

TEST_F(PlanTest, WithoutRulesTheCallersBreakpointsStayAsTheyAre) {
  std::vector<Block> blocks = AgentStart();
  blocks[1] = Marked(blocks[1], kHour);
  request_.blocks = blocks;
  segments_ = SegmentsOf(blocks);
  PlanArgs args = ArgsOf(request_, segments_, Opus());
  args.row = nullptr;
  args.automatic = kFiveMinutes;
  const Plan plan = planner_->Make(args);
  EXPECT_EQ(Places(plan), (Indices{1}));
  EXPECT_EQ(plan.breakpoints[0].breakpoint, kHour);
  EXPECT_EQ(plan.automatic, kFiveMinutes);
  EXPECT_EQ(plan.reason, "no rules for this model");
}

TEST_F(PlanTest, AKeyIsForAllRequestsOfATenantToAModelWhereNothingIsCachedWithoutOne) {
  const ledger::PriceRow& mistral = Row("mistral", "any");
  const std::vector<Block> blocks = {System("s", 3000), User("q", 100)};
  const std::string key = Make(blocks, mistral, Endpoint::kChatCompletions).prompt_cache_key;
  EXPECT_FALSE(key.empty());
  EXPECT_LE(key.size(), 64U);
  Wait(kMinuteUs);
  EXPECT_EQ(Make(blocks, mistral, Endpoint::kChatCompletions).prompt_cache_key, key);
  Converse("another");
  request_.shape = "another project";
  EXPECT_EQ(Make({System("s", 3000), System("its instructions", 500), User("q", 100)}, mistral,
                 Endpoint::kChatCompletions)
                .prompt_cache_key,
            key);
}

TEST_F(PlanTest, AnotherProjectAndChangedInstructionsKeepTheKeyThatDirectRequestsHave) {
  for (const ledger::PriceRow* row : {&Sol(), &Gpt55()}) {
    for (const char* text : {"instructions", "changed instructions", "another project"}) {
      request_.shape = text;
      Converse(text);
      const std::vector<Block> blocks = {Tool("t", 3000), System(text, 3000), User("q", 100)};
      EXPECT_EQ(Make(blocks, *row, Endpoint::kResponses).prompt_cache_key, "") << text;
    }
  }
}

TEST_F(PlanTest, ConversationsGetAnotherShardWhileTheirShapeIsBusy) {
  const std::vector<Block> blocks = {System("s", 3000), User("q", 100)};
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) {
    Converse("c" + std::to_string(i));
    keys.push_back(Make(blocks, Gpt55(), Endpoint::kResponses).prompt_cache_key);
    Wait(100'000);
  }
  EXPECT_EQ(keys[10], "");
  EXPECT_NE(keys[20], "");
  EXPECT_NE(keys[20], keys[39]);
  Converse("c0");
  EXPECT_EQ(Make(blocks, Gpt55(), Endpoint::kResponses).prompt_cache_key, "")
      << "never changed in a conversation";
  Converse("c20");
  EXPECT_EQ(Make(blocks, Gpt55(), Endpoint::kResponses).prompt_cache_key, keys[20]);
}

TEST_F(PlanTest, AConversationThatBeganWithoutAKeyNeverGetsOne) {
  const std::vector<Block> blocks = {System("s", 3000), User("q", 100)};
  for (int i = 0; i < 40; ++i) {
    Converse("c" + std::to_string(i));
    Make(blocks, Gpt55(), Endpoint::kResponses);
  }
  Converse("of before a restart");
  EXPECT_EQ(Make({System("s", 3000), User("q", 100), Assistant("a", 100), User("b", 100)}, Gpt55(),
                 Endpoint::kResponses)
                .prompt_cache_key,
            "");
  Converse("seen without being planned");
  request_.blocks = blocks;
  segments_ = SegmentsOf(blocks);
  PlanArgs args = ArgsOf(request_, segments_, Gpt55(), Endpoint::kResponses);
  args.first_of_conversation = false;
  EXPECT_EQ(planner_->Make(args).prompt_cache_key, "");
  Converse("a new one");
  EXPECT_NE(Make(blocks, Gpt55(), Endpoint::kResponses).prompt_cache_key, "");
}

TEST_F(PlanTest, AKeyIsNeitherWhereTheCallerHasOneNorWhereItIsNotTaken) {
  const std::vector<Block> blocks = {System("s", 3000), User("q", 100)};
  const ledger::PriceRow& clone = Row("openai", "mystery-7b");
  EXPECT_EQ(Make(blocks, clone, Endpoint::kChatCompletions).prompt_cache_key, "");
  caller_has_key_ = true;
  EXPECT_EQ(Make(blocks, Row("mistral", "any"), Endpoint::kChatCompletions).prompt_cache_key, "");
}

TEST_F(PlanTest, ABreakpointStandsAtTheEndOfTheSystemPromptAndNowhereElse) {
  std::vector<Block> blocks = {Tool("t", 2000), System("s", 3000), User("q", 900)};
  const Plan plan = Make(blocks, Sol(), Endpoint::kResponses);
  EXPECT_EQ(Places(plan), (Indices{1})) << "the newest turn has the provider's own";
  EXPECT_EQ(plan.breakpoints[0].breakpoint, (Breakpoint{BreakpointKind::kBreakpoint, 0}));
}

TEST_F(PlanTest, NoBreakpointWhereTheModelRefusesItOrTheCallerHasItsOwnOptions) {
  const std::vector<Block> blocks = {System("s", 3000), User("q", 900)};
  EXPECT_TRUE(Make(blocks, Row("openai", "gpt-5.5"), Endpoint::kResponses).breakpoints.empty());
  EXPECT_TRUE(
      Make(blocks, Row("openai", "gpt-4o"), Endpoint::kChatCompletions).breakpoints.empty());
  EXPECT_TRUE(Make(blocks, Opus(), Endpoint::kChatCompletions).breakpoints.empty());
  caller_has_options_ = true;
  EXPECT_TRUE(Make(blocks, Sol(), Endpoint::kResponses).breakpoints.empty());
}

TEST_F(PlanTest, BreakpointsOfTheCallerCountToTheFourWrites) {
  const Breakpoint own{BreakpointKind::kBreakpoint, 0};
  const std::vector<Block> blocks = {System("s", 3000), Marked(User("a", 900), own),
                                     Marked(User("b", 900), own), Marked(User("c", 900), own)};
  EXPECT_EQ(Places(Make(blocks, Sol(), Endpoint::kResponses)), (Indices{1, 2, 3}));
}

TEST_F(PlanTest, XaiIsToldTheConversation) {
  const std::vector<Block> blocks = {System("s", 3000), User("q", 900)};
  const ledger::PriceRow& grok = Row("xai", "grok-5");
  const Plan chat = Make(blocks, grok, Endpoint::kChatCompletions);
  EXPECT_EQ(chat.conversation_header, "x-grok-conv-id");
  EXPECT_FALSE(chat.conversation_id.empty());
  EXPECT_EQ(chat.prompt_cache_key, "");
  const std::string key = Make(blocks, grok, Endpoint::kResponses).prompt_cache_key;
  EXPECT_FALSE(key.empty());
  Converse("another");
  EXPECT_NE(Make(blocks, grok, Endpoint::kChatCompletions).conversation_id, chat.conversation_id);
  EXPECT_NE(Make(blocks, grok, Endpoint::kResponses).prompt_cache_key, key);
}

TEST_F(PlanTest, DeepSeekKimiAndGeminiGetNothing) {
  for (const char* provider : {"deepseek", "moonshot", "gemini"}) {
    const Plan plan = Make(AgentStart(), Row(provider, "any"), Endpoint::kChatCompletions);
    EXPECT_TRUE(plan.breakpoints.empty()) << provider;
    EXPECT_EQ(plan.prompt_cache_key + plan.conversation_id, "") << provider;
    EXPECT_FALSE(plan.reason.empty()) << provider;
  }
}

TEST_F(PlanTest, NothingIsSharedBetweenTenants) {
  request_.blocks = {System("s", 3000), User("q", 100)};
  segments_ = SegmentsOf(request_.blocks);
  PlanArgs args = ArgsOf(request_, segments_, Row("mistral", "any"), Endpoint::kChatCompletions);
  const Plan one = planner_->Make(args);
  args.tenant = "another";
  args.conversation = IdentityOf("another's");
  EXPECT_NE(planner_->Make(args).prompt_cache_key, one.prompt_cache_key);
}

TEST(PlannerTest, ManyThreadsAndMoreConversationsThanItRemembers) {
  const auto planner = Planner::Make({.conversations_max = 8, .shapes_max = 4});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&planner, t] {
      for (int i = 0; i < 500; ++i) {
        Request request{.time_us = kMinuteUs + i * kSecondUs,
                        .conversation = "c" + std::to_string((t * 7 + i) % 40),
                        .shape = "s" + std::to_string(i % 9),
                        .blocks = AgentStart()};
        const std::vector<PlanSegment> segments = SegmentsOf(request.blocks);
        const PlanArgs args = ArgsOf(request, segments, Opus());
        const Plan plan = planner->Make(args);
        EXPECT_LE(plan.breakpoints.size(), 4U);
        if (i % 5 == 0) planner->Forget(args.conversation, plan.id);
        planner->Learn({.conversation = args.conversation,
                        .plan = plan.id,
                        .shape = args.shape,
                        .cache_read_tokens = i % 3 == 0 ? 5000 : 0,
                        .cache_write_tokens = 500,
                        .input_tokens = 5500,
                        .estimated_tokens = 5500,
                        .now_us = request.time_us + kSecondUs});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kvgate::prompt::planner
