// A working day on a simulated clock: agents in teams, whose long conversations are
// kept bounded in several ways over the same scripts, at a provider whose prompt cache and prices
// are simulated by the documented rules. The provider's own compactions are what kvgate's are
// measured by. Texts have their real length: 16 tools and a system prompt of 11,000 tokens, prompts
// of up to 100,000.
//
//   KVGATE_TEST_FULL=1         500 agents in 25 teams for ten hours; else two agents for six
//   KVGATE_WORKDAY_TEAMS=N     so many teams
//   KVGATE_WORKDAY_SEED=N      another day
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gateway/session/workday/workday_sessions.h"
#include "tests/gateway/session/workday/workday_ways.h"

namespace kvgate::session::workday {
namespace {

enum class Kind : uint8_t { kNative, kEmulated, kHard, kSummary, kIdle, kOwnPrompt };
constexpr Kind kKinds[] = {Kind::kNative,  Kind::kEmulated, Kind::kHard,
                           Kind::kSummary, Kind::kIdle,     Kind::kOwnPrompt};

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kNative:
      return "provider's compaction";
    case Kind::kEmulated:
      return "kvgate's compaction";
    case Kind::kHard:
      return "session, hard window";
    case Kind::kSummary:
      return "session, summaries";
    case Kind::kIdle:
      return "session, also idle";
    case Kind::kOwnPrompt:
      return "client's own prompt";
  }
  return "";
}

// Lets the agents of a team take their steps in the order of time.
void RunSteps(std::vector<std::unique_ptr<Way>>& agents) {
  using Due = std::pair<int64_t, size_t>;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due;
  for (size_t i = 0; i < agents.size(); ++i) due.emplace(agents[i]->begin_us(), i);
  while (!due.empty()) {
    const auto [now_us, agent] = due.top();
    due.pop();
    const std::optional<int64_t> next_us = agents[agent]->Step(now_us);
    if (next_us) due.emplace(std::max(*next_us, now_us), agent);
  }
}

Bill RunTeam(Kind kind, uint64_t number, const std::vector<WorkdayScript>& scripts) {
  const std::string front = FrontOf(number);
  WorkdayProvider provider(Joined(front, ""));
  const Team team{.name = fmt::format("team-{}", number), .front = front, .provider = provider};
  WorkdayGateway gateway(team);
  const std::unique_ptr<Keyring> ring = Keyring::Generate();
  TeamSessions kept(kind == Kind::kHard ? window::Mode::kHard : window::Mode::kSummary,
                    /*folds_idle=*/kind == Kind::kIdle);
  std::vector<std::unique_ptr<Way>> agents;
  for (const WorkdayScript& script : scripts) {
    switch (kind) {
      case Kind::kNative:
        agents.push_back(std::make_unique<NativeWay>(team, script));
        break;
      case Kind::kOwnPrompt:
        agents.push_back(std::make_unique<OwnPromptWay>(team, script));
        break;
      case Kind::kEmulated:
        agents.push_back(std::make_unique<EmulatedWay>(
            team, script, EmulatedWay::Args{.gateway = gateway, .ring = *ring}));
        break;
      default:
        agents.push_back(std::make_unique<SessionWay>(
            team, script, SessionWay::Args{.gateway = gateway, .sessions = kept.sessions}));
    }
  }
  RunSteps(agents);
  return provider.bill;
}

class WorkdayTest : public ::testing::Test {
 protected:
  static bool IsFull() { return std::getenv("KVGATE_TEST_FULL") != nullptr; }

  // Every team's day in every way; teams are independent, and run beside each other.
  void Run() {
    const char* const seed = std::getenv("KVGATE_WORKDAY_SEED");
    const uint64_t first = seed == nullptr ? 1 : std::stoull(seed);
    const char* const teams = std::getenv("KVGATE_WORKDAY_TEAMS");
    const size_t num_teams = teams != nullptr ? std::stoull(teams) : IsFull() ? 25 : 1;
    const size_t num_agents = IsFull() ? 20 : 2;
    const int64_t hours = IsFull() ? 10 : 6;
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t team = next++; team < num_teams; team = next++) {
        std::vector<WorkdayScript> scripts;
        for (size_t i = 0; i < num_agents; ++i) {
          const uint64_t number = first * 100'000 + team * 100 + i;
          scripts.push_back(WorkdayAuthor(number).Write(fmt::format("agent-{}", number), hours));
        }
        for (const Kind kind : kKinds) {
          const Bill bill = RunTeam(kind, first * 1'000 + team, scripts);
          const std::lock_guard lock(mutex_);
          bills_[kind].Add(bill);
        }
      }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 1; IsFull() && i < std::thread::hardware_concurrency(); ++i) {
      threads.emplace_back(work);
    }
    work();
    for (std::thread& thread : threads) thread.join();
    num_agents_ = static_cast<int64_t>(num_teams * num_agents);
    Print(hours);
  }

  int64_t num_agents() const { return num_agents_; }
  const Bill& Of(Kind kind) { return bills_[kind]; }
  double Ratio(Kind kind) { return Of(kind).dollars() / Of(Kind::kNative).dollars(); }

 private:
  void Print(int64_t hours) {
    std::printf("%lld agents, %lld hours; tokens in millions\n",
                static_cast<long long>(num_agents_), static_cast<long long>(hours));
    std::printf("%-22s %9s %9s %9s %8s %8s %8s %7s %8s %8s %7s %6s %9s %6s\n", "", "requests",
                "read", "written", "fresh", "output", "shorter", "cached", "summary", "stable",
                "return", "alone", "cost $", "ratio");
    for (const Kind kind : kKinds) {
      const Bill& bill = Of(kind);
      const auto millions = [](int64_t tokens) { return static_cast<double>(tokens) / 1e6; };
      std::printf(
          "%-22s %9lld %9.2f %9.2f %8.2f %8.2f %8lld %6.1f%% %7.2f%% %8.2f %7.2f %6lld %9.2f "
          "%6.3f\n",
          NameOf(kind), static_cast<long long>(bill.num_requests),
          millions(bill.usage.cache_read_tokens),
          millions(bill.usage.cache_write_tokens + bill.usage.cache_write_1h_tokens),
          millions(bill.usage.uncached_tokens), millions(bill.usage.output_tokens),
          static_cast<long long>(bill.num_compactions), 100 * bill.cached_share(),
          100 * bill.warm_share(), millions(bill.stable_cold), millions(bill.return_written),
          static_cast<long long>(bill.num_alone), bill.dollars(), Ratio(kind));
    }
  }

  int64_t num_agents_ = 0;
  std::mutex mutex_;
  std::map<Kind, Bill> bills_;
};

TEST_F(WorkdayTest, KvgatesWaysCostAboutWhatTheProvidersOwnCompactionDoes) {
  Run();
  for (const Kind kind : kKinds) {
    const Bill& bill = Of(kind);
    EXPECT_EQ(bill.num_refused, 0) << NameOf(kind);
    EXPECT_GT(bill.num_compactions, 0) << NameOf(kind);
    EXPECT_EQ(bill.stable_in_vain, 0) << NameOf(kind);
    // Only who folds idle sessions does anything while nobody is there, and once.
    EXPECT_LE(bill.num_alone, kind == Kind::kIdle ? 2 * num_agents() : 0) << NameOf(kind);
  }
  for (const Kind kind : {Kind::kEmulated, Kind::kSummary, Kind::kIdle}) {
    EXPECT_GT(Of(kind).num_warm, 0) << NameOf(kind);
    EXPECT_GE(Of(kind).warm_share(), 0.99) << NameOf(kind) << ": what was sent before is not read";
    EXPECT_EQ(Of(kind).usage.uncached_tokens, 0) << NameOf(kind);
  }
  // Who folds idle sessions writes less when they are gone on with.
  EXPECT_LT(Of(Kind::kIdle).return_written, Of(Kind::kSummary).return_written);
  // Summaries keep the newest two tasks word for word, which costs reads; folded while they are
  // idle, sessions are cheaper than the provider's own way nevertheless.
  EXPECT_LE(Ratio(Kind::kEmulated), 1.02);
  EXPECT_LE(Ratio(Kind::kIdle), 1.02);
  EXPECT_LE(Ratio(Kind::kHard), 1.15);
  EXPECT_LE(Ratio(Kind::kSummary), 1.30);
  // These bounds can be missed: one change to the request for the summary is seen.
  EXPECT_GT(Ratio(Kind::kOwnPrompt), 1.10);
}

}  // namespace
}  // namespace kvgate::session::workday
