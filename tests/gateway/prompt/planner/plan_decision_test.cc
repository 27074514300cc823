// These tests compute bills over time: the cost of the planner's decisions on simulated traffic.
#include "gateway/prompt/planner/plan_decision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/gateway/prompt/plan_simulation.h"

namespace kvgate::prompt::planner {

using parse::Breakpoint;

namespace {

using namespace simulation;  // NOLINT: all of it is meant

const ledger::PriceRow& Opus() { return Row("anthropic", "claude-opus-5"); }

void Print(const std::string& what, const RunResult& run) {
  std::printf("%-44s %5.1f %% of direct, %5.1f %% read, %4.1f %% written\n", what.c_str(),
              100 * run.total.ratio(), 100 * run.total.read / run.total.input,
              100 * run.total.written / run.total.input);
}

double WorstFrom(const RunResult& run, size_t first) {
  return *std::max_element(run.worst_after.begin() + static_cast<int64_t>(first),
                           run.worst_after.end());
}

// The gaps in minutes, and the largest allowed ratio to the direct cost.
struct GapCase {
  std::vector<int> minutes;
  double most;
};

TEST(PlanBillTest, AnAgentNeverPaysMoreThanDirect) {
  for (const GapCase& some : {GapCase{{0}, 0.25},
                              {{4}, 0.25},
                              {{7}, 0.4},
                              {{30}, 0.4},
                              {{4, 7}, 0.4},
                              {{1, 30}, 0.4},
                              {{7, 90}, 1.02},
                              {{4, 90}, 1},
                              {{4, 4, 4, 90}, 0.7}}) {
    AgentOptions options;
    options.gaps_us.clear();
    std::string name = "agent, gaps of";
    for (const int minutes : some.minutes) {
      options.gaps_us.push_back(std::max<int64_t>(minutes * kMinuteUs, 20 * kSecondUs));
      name += " " + std::to_string(minutes);
    }
    const RunResult run = Simulate(Agent(options), Opus());
    Print(name + " min", run);
    EXPECT_LE(run.total.ratio(), some.most) << name;
  }
}

TEST(PlanBillTest, GapsOverEveryLifetimeAreNotWrittenFor) {
  AgentOptions options;
  options.gaps_us = {90 * kMinuteUs};
  const RunResult run = Simulate(Agent(options), Opus());
  Print("agent, gaps of 90 min", run);
  EXPECT_LE(WorstFrom(run, 20), 1.02);
  EXPECT_TRUE(run.plans.back().breakpoints.empty());
  EXPECT_EQ(run.plans.back().reason, "gaps exceed every lifetime");
}

std::vector<Request> OneShots(int count, int64_t gap_us, const std::vector<Block>& shared,
                              const std::string& shape, uint32_t question_tokens) {
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    const std::string name = "question " + std::to_string(i);
    Request request{kMinuteUs + i * gap_us, name, shape, shared};
    request.blocks.push_back(User(name, question_tokens));
    requests.push_back(std::move(request));
  }
  return requests;
}

TEST(PlanBillTest, OneShotsOfOneShapeStayWithinTwoPercent) {
  struct Case {
    const char* what;
    std::vector<Block> shared;
    uint32_t question_tokens;
    int64_t gap_us;
    double most;
  };
  const Block tool = Tool("tool", 300);
  for (const Case& some :
       {Case{"questions, long system", {System("s", 5000)}, 300, 10 * kSecondUs, 0.3},
        {"questions, short system", {System("s", 200)}, 6000, 10 * kSecondUs, 1.02},
        {"questions with a tool", {tool, System("s", 100)}, 6000, 10 * kSecondUs, 1.02},
        {"questions with a tool, 1 s", {tool, System("s", 100)}, 6000, kSecondUs, 1.02},
        {"questions with a tool, 10 min", {tool, System("s", 100)}, 6000, 10 * kMinuteUs, 1.02},
        {"questions with tools, long", {Tool("t", 9000)}, 3000, kSecondUs, 0.6},
        {"questions with tools, long, 10 min", {Tool("t", 9000)}, 3000, 10 * kMinuteUs, 0.6},
        {"questions with tools, long, 90 min", {Tool("t", 9000)}, 3000, 90 * kMinuteUs, 1.02},
        {"under the minimum", {System("s", 100)}, 300, kSecondUs, 1}}) {
    const RunResult run =
        Simulate(OneShots(200, some.gap_us, some.shared, "s", some.question_tokens), Opus());
    Print(some.what, run);
    EXPECT_LE(run.total.ratio(), some.most) << some.what;
    EXPECT_LE(WorstFrom(run, 20), 1.02) << some.what;
  }
}

TEST(PlanBillTest, OneShotsOfManyShapesStayWithinTwoPercent) {
  for (const bool has_tools : {false, true}) {
    std::vector<Request> requests;
    for (int i = 0; i < 200; ++i) {
      const std::string name = std::to_string(i);
      std::vector<Block> shared = {System("system " + name, 4000)};
      if (has_tools) shared.insert(shared.begin(), Tool("tool " + name, 2000));
      std::vector<Request> one = OneShots(1, 0, shared, "shape " + name, 1000);
      one[0].conversation = "conversation " + name;
      one[0].time_us += i * 10 * kSecondUs;
      requests = Join(std::move(requests), one);
    }
    const RunResult run = Simulate(requests, Opus());
    Print(has_tools ? "one-shots of 200 shapes, tools" : "one-shots of 200 shapes", run);
    EXPECT_LE(WorstFrom(run, 20), 1.02);
  }
}

TEST(PlanBillTest, BurstsOfSubAgentsPayForOneWriteOfWhatTheyShare) {
  for (const int num_turns : {1, 2, 3, 10}) {
    std::vector<Request> requests;
    for (int burst = 0; burst < 5; ++burst) {
      for (int i = 0; i < 8; ++i) {
        AgentOptions options;
        options.name = "sub-agent " + std::to_string(burst) + "." + std::to_string(i);
        options.num_turns = num_turns;
        options.start_us = kMinuteUs + burst * 10 * kMinuteUs + i * 100'000;
        requests = Join(std::move(requests), Agent(options));
      }
    }
    const RunResult run = Simulate(requests, Opus());
    Print("5 bursts of 8 sub-agents, turns: " + std::to_string(num_turns), run);
    EXPECT_LE(run.total.ratio(), num_turns > 1 ? 0.5 : 1.02);
    EXPECT_LE(WorstFrom(run, 20), 1.02);
  }
}

TEST(PlanBillTest, AgentsAmongOneShotsKeepTheirCache) {
  AgentOptions options;
  options.start_us = 40 * kMinuteUs;
  const std::vector<Request> one_shots =
      OneShots(200, 10 * kSecondUs, {Tool("tool", 300), System("s", 100)}, "other", 6000);
  const RunResult alone = Simulate(Agent(options), Opus());
  const RunResult both = Simulate(Join(one_shots, Agent(options)), Opus());
  Print("an agent after 200 one-shots", both);
  const double agents = both.total.read / alone.total.read;
  EXPECT_GE(agents, 0.97) << "the first request is all that may be lost";
}

TEST(PlanBillTest, ACacheThatNeverHitsIsSoonNotWrittenTo) {
  std::vector<Request> requests = Agent({});
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].blocks[0].text = "changes each time " + std::to_string(i);
  }
  const RunResult run = Simulate(requests, Opus());
  Print("an agent whose tools change each time", run);
  EXPECT_LE(WorstFrom(run, 20), 1.03);
}

TEST(PlanBillTest, LongTurnsNeverLoseTheChain) {
  for (const int blocks : {2, 18, 30, 60, 120}) {
    AgentOptions options;
    options.blocks_a_turn = blocks;
    options.tokens_a_turn = 6000;
    const RunResult run = Simulate(Agent(options), Opus());
    Print("agent, blocks a turn: " + std::to_string(blocks), run);
    EXPECT_LE(run.total.ratio(), 0.2);
  }
}

// Returns the cost of a run relative to the same requests without the planner's key and
// breakpoints.
double Share(const std::string& what, const std::vector<Request>& requests,
             const ledger::PriceRow& row) {
  RunOptions options{.endpoint = dialect::form::Endpoint::kResponses};
  const RunResult planned = Simulate<BreakpointCache>(requests, row, options);
  options.is_planned = false;
  const RunResult direct = Simulate<BreakpointCache>(requests, row, options);
  const double share = planned.total.paid / direct.total.paid;
  std::printf("%-44s %5.1f %% of direct, %5.1f %% read (direct %5.1f %%)\n", what.c_str(),
              100 * share, 100 * planned.total.read / planned.total.input,
              100 * direct.total.read / direct.total.input);
  return share;
}

TEST(PlanBillTest, BreakpointsAndKeysNeverCostMoreThanDirect) {
  const ledger::PriceRow& sol = Row("openai", "gpt-6-sol");
  EXPECT_LE(Share("gpt-6, an agent", Agent({}), sol), 1);
  AgentOptions slow;
  slow.gaps_us = {20 * kMinuteUs, 40 * kMinuteUs};
  EXPECT_LE(Share("gpt-6, an agent, gaps of 20 40 min", Agent(slow), sol), 1);
  std::vector<Request> several;
  for (int i = 0; i < 12; ++i) {
    AgentOptions options;
    options.name = "agent " + std::to_string(i);
    options.num_turns = 6;
    options.start_us = (1 + 3 * i) * kMinuteUs;
    several = Join(std::move(several), Agent(options));
  }
  EXPECT_LE(Share("gpt-6, 12 agents of one shape", several, sol), 0.85);
  EXPECT_LE(Share("gpt-6, 200 questions, long system",
                  OneShots(200, 10 * kSecondUs, {System("s", 5000)}, "s", 300), sol),
            0.25);
  EXPECT_LE(Share("gpt-6, 200 questions, short system",
                  OneShots(200, 10 * kSecondUs, {System("s", 100)}, "s", 3000), sol),
            1);
}

TEST(PlanBillTest, WhatMovesAtTheEndOfTheNewestTurnDoesNotCostTheChain) {
  std::vector<Request> requests = Agent({});
  for (size_t i = 0; i < requests.size(); ++i) {
    Block reminder = User("reminder " + std::to_string(i), 200);
    reminder.is_volatile = true;
    requests[i].blocks.push_back(reminder);
  }
  const ledger::PriceRow& sol = Row("openai", "gpt-6-sol");
  EXPECT_LE(Share("gpt-6, an agent with a moving reminder", requests, sol), 0.6);
  const RunResult run = Simulate(requests, Opus());
  Print("an agent with a moving reminder", run);
  EXPECT_LE(run.total.ratio(), 0.2);
}

// Returns the requests with a clock in their system prompt from request `first` on, which shows
// another time after every `period` requests. Nothing says that it is one.
std::vector<Request> WithClock(std::vector<Request> requests, size_t first, size_t period) {
  for (size_t i = first; i < requests.size(); ++i) {
    for (Block& block : requests[i].blocks) {
      if (block.section != parse::Section::kSystem) continue;
      block.text += " at " + std::to_string((i - first) / period);
    }
  }
  return requests;
}

TEST(PlanBillTest, AClockAfterStableTrafficStaysWithinTwoPercent) {
  for (const uint32_t tools : {uint32_t{11'000}, uint32_t{120}}) {
    for (const bool goes_on : {true, false}) {
      AgentOptions options;
      options.shared_tokens = tools;
      options.num_turns = 80;
      options.tokens_a_turn = 900;
      std::vector<Request> requests = Agent(options);
      if (!goes_on) {
        options.num_turns = 40;
        AgentOptions next = options;
        next.name = "the next agent";
        next.start_us = 60 * kMinuteUs;
        requests = Join(Agent(options), Agent(next));
      }
      const RunResult run = Simulate(WithClock(std::move(requests), 40, 1), Opus());
      const double ratio = run.From(40).ratio();
      std::printf("a clock after 40 stable turns, %5u shared, %s: %.1f %% of direct\n", tools,
                  goes_on ? "same conversation" : "next conversation", 100 * ratio);
      EXPECT_LE(ratio, 1.02) << tools << goes_on;
      if (tools > 1000) {
        EXPECT_LE(ratio, 0.9) << "the tools hold";
      }
    }
  }
}

TEST(PlanBillTest, ClocksOfAnyPeriodStayWithinTwoPercent) {
  for (const size_t period : {size_t{1}, size_t{2}, size_t{3}, size_t{5}, size_t{10}}) {
    AgentOptions options;
    options.shared_tokens = 120;
    options.task_tokens = 6000;
    const RunResult run = Simulate(WithClock(Agent(options), 0, period), Opus());
    Print("a clock that changes every " + std::to_string(period) + " turns", run);
    EXPECT_LE(run.total.ratio(), period == 1 ? 1.02 : 0.9);
  }
}

TEST(PlanBillTest, ClocksThatChangeAtRandomNeverCostMuch) {
  for (const double changes : {0.2, 0.5, 0.7, 0.85, 0.95}) {
    double worst = 0;
    Bill all;
    for (uint32_t seed = 0; seed < 100; ++seed) {
      std::mt19937 random(seed);
      AgentOptions options;
      options.shared_tokens = random() % 2 == 0 ? 120 : 3000;
      options.task_tokens = 6000;
      options.tokens_a_turn = 100 + random() % 1000;
      std::vector<Request> requests = Agent(options);
      size_t time = 0;
      for (Request& request : requests) {
        time += std::bernoulli_distribution(changes)(random) ? 1 : 0;
        for (Block& block : request.blocks) {
          if (block.section == parse::Section::kSystem) block.text += " at " + std::to_string(time);
        }
      }
      const RunResult run = Simulate(requests, Opus());
      worst = std::max(worst, run.total.ratio());
      all.Add(run.total);
    }
    std::printf(
        "100 clocks that change with probability %.2f: %.1f %% of direct, the worst %.2f %%\n",
        changes, 100 * all.ratio(), 100 * worst);
    EXPECT_LE(all.ratio(), 1) << changes;
    EXPECT_LE(worst, 1.025) << changes << ": a few lost writes in the worst order";
  }
}

// A provider that evicts: a request finds what was written with probability `held` only.
TEST(PlanBillTest, EntriesThatDoNotLastAreSoonNotWritten) {
  for (const double held : {0.0, 0.1, 0.3}) {
    double worst = 0;
    Bill all;
    for (uint32_t seed = 0; seed < 50; ++seed) {
      AgentOptions options;
      options.tokens_a_turn = 100 + 20 * seed;
      const RunResult run = Simulate(Agent(options), Opus(), {.held = held, .seed = seed});
      worst = std::max(worst, run.total.ratio());
      all.Add(run.total);
    }
    std::printf("50 agents, entries last with probability %.1f: %.1f %% of direct, worst %.2f %%\n",
                held, 100 * all.ratio(), 100 * worst);
    EXPECT_LE(all.ratio(), 1.02) << held;
    EXPECT_LE(worst, 1.04) << held;
  }
}

TEST(PlanBillTest, APrefixThatHeldForTwoRequestsEarnsAWriteWhateverHappenedBefore) {
  for (const int num_changes : {3, 6, 12, 25}) {
    std::vector<Request> requests = Agent({});
    const auto changes = static_cast<size_t>(num_changes);
    for (size_t i = 0; i < changes; ++i) {
      requests[i].blocks[0].text = "changes each time " + std::to_string(i);
    }
    const RunResult run = Simulate(requests, Opus());
    // The first request with stable tools is `changes`; the next one proves them.
    EXPECT_FALSE(run.plans[changes + 1].breakpoints.empty()) << run.plans[changes + 1].reason;
    for (size_t i = changes + 2; i < requests.size(); ++i) {
      EXPECT_GT(run.bills[i].read, 0.8 * run.bills[i - 1].input) << i << " of " << num_changes;
    }
  }
}

// Where every part that names a conversation changed, each request began one of its own.
TEST(PlanBillTest, AConversationThatIsRecognisedLateEarnsAWriteAtItsSecondRequest) {
  std::vector<Request> requests = Agent({});
  for (size_t i = 0; i < 10; ++i) {
    const std::string name = "changes each time " + std::to_string(i);
    requests[i].blocks[0].text = requests[i].conversation = requests[i].shape = name;
  }
  const RunResult run = Simulate(requests, Opus());
  EXPECT_FALSE(run.plans[11].breakpoints.empty()) << run.plans[11].reason;
  EXPECT_GT(run.bills[12].read, 0.8 * run.bills[11].input);
}

TEST(PlanBillTest, PausesOverEveryLifetimeDoNotEndCaching) {
  AgentOptions options;
  options.gaps_us.assign(6, 90 * kMinuteUs);
  options.gaps_us.resize(40, 20 * kSecondUs);
  const RunResult run = Simulate(Agent(options), Opus());
  Print("six pauses of 90 min, then a stream", run);
  EXPECT_GT(run.bills.back().read, 0.9 * run.bills.back().input - 1000);
  EXPECT_GT(run.bills[9].read, 0.8 * run.bills[8].input);
}

// Returns the cached tokens of a run over those of the same requests without the planner's key.
double CachedBesideDirect(const std::string& what, const std::vector<Request>& requests) {
  const ledger::PriceRow& row = Row("openai", "gpt-5.5");
  RunOptions options{.endpoint = dialect::form::Endpoint::kChatCompletions};
  const RunResult planned = Simulate<IncrementCache>(requests, row, options);
  options.is_planned = false;
  const RunResult direct = Simulate<IncrementCache>(requests, row, options);
  std::printf("%-44s %.0f tokens cached, direct %.0f\n", what.c_str(), planned.total.read,
              direct.total.read);
  EXPECT_GT(direct.total.read, 0);
  return planned.total.read / direct.total.read;
}

TEST(PlanBillTest, AnotherProjectFindsWhatItSharesAsItWouldDirectly) {
  std::vector<Request> requests;
  for (int i = 0; i < 4; ++i) {
    const std::string project = "project " + std::to_string(i);
    requests.push_back({kMinuteUs * (1 + i),
                        project,
                        project,
                        {Tool("tools", 6000), System("rules", 1424), System(project + " rules", 32),
                         User("task", 100)}});
  }
  EXPECT_GE(CachedBesideDirect("gpt-5.5, four projects", requests), 1);
}

TEST(PlanBillTest, APromptThatGrowsOverTheMinimumKeepsWhatIsCached) {
  AgentOptions options;
  options.shared_tokens = 1200;
  options.task_tokens = 400;
  options.tokens_a_turn = 300;
  options.num_turns = 8;
  EXPECT_GE(CachedBesideDirect("gpt-5.5, from 1,600 tokens on", Agent(options)), 1);
}

// Returns the cost of a run relative to the same requests with the caller's breakpoints alone.
double BesideCaller(const std::string& what, const std::vector<Request>& requests) {
  const RunResult planned = Simulate(requests, Opus());
  const RunResult direct = Simulate(requests, Opus(), {.is_planned = false});
  const double share = planned.total.paid / direct.total.paid;
  std::printf("%-44s %5.1f %% of direct, %5.1f %% read (direct %5.1f %%)\n", what.c_str(),
              100 * share, 100 * planned.total.read / planned.total.input,
              100 * direct.total.read / direct.total.input);
  return share;
}

void MarkSystem(Request& request) {
  for (Block& block : request.blocks) {
    if (block.section == parse::Section::kSystem) block.breakpoint = Breakpoint{};
  }
}

TEST(PlanBillTest, CallersThatMarkPayNoMoreThanTheyWould) {
  AgentOptions options;
  std::vector<Request> marked = Agent(options);
  for (Request& request : marked) {
    MarkSystem(request);
    request.blocks.back().breakpoint = Breakpoint{};
  }
  EXPECT_LE(BesideCaller("caller marks as it should", marked), 1.001);

  std::vector<Request> only_system = Agent(options);
  for (Request& request : only_system) MarkSystem(request);
  EXPECT_LE(BesideCaller("caller marks the system only (G7)", only_system), 0.4);

  std::vector<Request> on_volatile = marked;
  for (size_t i = 0; i < on_volatile.size(); ++i) {
    on_volatile[i].blocks.back().breakpoint.reset();
    on_volatile[i].blocks.push_back(User("counter " + std::to_string(i), 30));
    on_volatile[i].blocks.back().is_volatile = true;
    on_volatile[i].blocks.back().breakpoint = Breakpoint{};
  }
  EXPECT_LE(BesideCaller("caller marks the volatile block (V4)", on_volatile), 0.4);

  options.blocks_a_turn = 30;
  options.tokens_a_turn = 3000;
  std::vector<Request> long_turns = Agent(options);
  for (Request& request : long_turns) {
    MarkSystem(request);
    request.blocks.back().breakpoint = Breakpoint{};
  }
  EXPECT_LE(BesideCaller("caller marks, 30 blocks a turn", long_turns), 0.5);
}

TEST(PlanBillTest, OneShotsOfCallersThatMarkStayWithinTwoPercent) {
  std::vector<Request> requests =
      OneShots(200, 10 * kSecondUs, {Tool("t", 400), System("s", 2000)}, "s", 4000);
  for (Request& request : requests) MarkSystem(request);
  EXPECT_LE(BesideCaller("one-shots, caller marks the system", requests), 1.02);
}

TEST(PlanBillTest, EstimatesThatAreOffAreCalibrated) {
  for (const double reported : {0.6, 1.2, 1.6}) {
    const RunResult run = Simulate(Agent({}), Opus(), {.reported = reported});
    Print("an agent, tokens by estimate: " + std::to_string(reported).substr(0, 3), run);
    EXPECT_LE(run.total.ratio(), 0.2);
  }
}

TEST(PlanBillTest, AShapeThatIsLearntIsJudgedByWhatItDid) {
  std::vector<Request> requests;
  for (int i = 0; i < 10; ++i) {
    AgentOptions options;
    options.name = "human " + std::to_string(i);
    options.num_turns = 12;
    options.start_us = (1 + 200 * i) * kMinuteUs;
    options.gaps_us = {7 * kMinuteUs, 12 * kMinuteUs};
    requests = Join(std::move(requests), Agent(options));
  }
  const RunResult run = Simulate(requests, Opus());
  Print("10 chats with gaps of 7 and 12 min", run);
  const Plan& first_of_last = run.plans[run.plans.size() - 12];
  ASSERT_FALSE(first_of_last.breakpoints.empty());
  EXPECT_EQ(first_of_last.breakpoints.back().breakpoint.ttl_seconds, 3600)
      << "from its first request on";
}

TEST(PlanBillTest, ChatsThatEndAfterTheirSecondQuestionAreLearnt) {
  std::vector<Request> requests;
  for (int i = 0; i < 100; ++i) {
    AgentOptions options;
    options.name = "chat " + std::to_string(i);
    options.num_turns = 2;
    options.start_us = (1 + i) * kMinuteUs;
    options.shared_tokens = 120;
    options.task_tokens = 4000;
    requests = Join(std::move(requests), Agent(options));
    for (size_t r = requests.size() - 2; r < requests.size(); ++r) {
      std::erase_if(requests[r].blocks,
                    [](const Block& b) { return b.section == parse::Section::kTools; });
    }
  }
  const RunResult run = Simulate(requests, Opus());
  Print("100 chats of two questions", run);
  EXPECT_LE(run.total.ratio(), 1.02);
}

// Makes random traffic from one seed: gaps from seconds to hours, prefixes and questions of all
// sizes.
class RandomTraffic {
 public:
  explicit RandomTraffic(uint32_t seed) : random_(seed) {}

  int64_t Gap(double mean_seconds) {
    return 1 + static_cast<int64_t>(
                   std::exponential_distribution<double>(1 / mean_seconds)(random_) * kSecondUs);
  }
  double LogUniform(double min, double max) {
    return min * std::pow(max / min, std::uniform_real_distribution<double>(0, 1)(random_));
  }
  RunOptions Timing() {
    RunOptions options;
    options.first_byte_us = static_cast<int64_t>(LogUniform(0.3, 15) * kSecondUs);
    options.answer_us = options.first_byte_us + static_cast<int64_t>(LogUniform(1, 60) * kSecondUs);
    return options;
  }

  // Returns requests that are each their own conversation; sizes vary by a third.
  std::vector<Request> OneShots(int count) {
    const double mean_gap = LogUniform(0.3, 4000);
    const int num_shapes = chance(2) ? 1 : 1 + static_cast<int>(random_() % 20);
    const bool has_tools = chance(2);
    const double shared = LogUniform(50, 20'000);
    const double question = LogUniform(50, 20'000);
    std::vector<Request> requests;
    int64_t now_us = kMinuteUs;
    for (int i = 0; i < count; ++i) {
      const std::string shape = "shape " + std::to_string(random_() % num_shapes);
      const std::string name = "question " + std::to_string(i);
      const auto tokens = static_cast<uint32_t>(shared);
      requests.push_back(
          {now_us, name, shape, {has_tools ? Tool(shape, tokens) : System(shape, tokens)}});
      const double size = question * LogUniform(0.7, 1.4);
      requests.back().blocks.push_back(User(name, static_cast<uint32_t>(size)));
      now_us += Gap(mean_gap);
    }
    return requests;
  }

  // Returns conversations in which the next turn follows the answer.
  std::vector<Request> Agents(int num_turns_min, int64_t answer_us, int64_t gap_max_us) {
    std::vector<Request> requests;
    const int count = 1 + static_cast<int>(random_() % 6);
    const bool one_shape = chance(2);
    const double mean_gap = LogUniform(5, 3000);
    const double apart = LogUniform(0.1, 1000);
    AgentOptions options;
    options.shared_tokens = static_cast<uint32_t>(LogUniform(600, 30'000));
    options.tokens_a_turn = static_cast<uint32_t>(LogUniform(100, 4000));
    options.task_tokens = static_cast<uint32_t>(LogUniform(50, 8000));
    options.blocks_a_turn = 2 + static_cast<int>(random_() % 20);
    for (int i = 0; i < count; ++i) {
      options.name = "agent " + std::to_string(i);
      if (!one_shape) options.shape = options.name;
      options.start_us += Gap(apart);
      options.num_turns = num_turns_min + static_cast<int>(random_() % 30);
      options.gaps_us.clear();
      for (int turn = 0; turn < options.num_turns; ++turn) {
        options.gaps_us.push_back(std::min(answer_us + Gap(mean_gap), gap_max_us));
      }
      requests = Join(std::move(requests), Agent(options));
    }
    return requests;
  }

 private:
  bool chance(uint32_t of) { return random_() % of == 0; }
  std::mt19937 random_;
};

TEST(PlanBillTest, RandomOneShotsStayWithinTwoPercent) {
  double worst = 0;
  double paid = 0;
  double direct = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomTraffic traffic(seed);
    const std::vector<Request> requests = traffic.OneShots(100);
    const RunResult run = Simulate(requests, Opus(), traffic.Timing());
    worst = std::max(worst, WorstFrom(run, 19));
    paid += run.total.paid;
    direct += run.total.direct;
  }
  std::printf("400 kinds of one-shots: %.1f %% of direct, the worst after 20: %.2f %%\n",
              100 * paid / direct, 100 * worst);
  EXPECT_LE(worst, 1.02);
}

// Returns the worst ratio to the direct cost over many fleets whose gaps are at most `gap_max_us`.
double WorstFleet(int64_t gap_max_us) {
  double worst = 0;
  Bill all;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    RandomTraffic traffic(seed);
    const RunOptions timing = traffic.Timing();
    const RunResult run =
        Simulate(traffic.Agents(10, timing.answer_us, gap_max_us), Opus(), timing);
    worst = std::max(worst, run.total.ratio());
    all.paid += run.total.paid;
    all.direct += run.total.direct;
  }
  std::printf("100 fleets of agents, gaps to %3d min: %.1f %% of direct, the worst %.1f %%\n",
              static_cast<int>(gap_max_us / kMinuteUs), 100 * all.ratio(), 100 * worst);
  return worst;
}

TEST(PlanBillTest, RandomAgentsPayNoMoreThanDirect) {
  EXPECT_LE(WorstFleet(4 * kMinuteUs), 0.7);
  EXPECT_LE(WorstFleet(55 * kMinuteUs), 1);
  EXPECT_LE(WorstFleet(1000 * kMinuteUs), 1.05) << "over every lifetime, where nothing helps";
}

}  // namespace
}  // namespace kvgate::prompt::planner
