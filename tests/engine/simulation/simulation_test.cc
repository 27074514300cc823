// These tests simulate the engine deterministically: the real loop, scheduler, planner, caches,
// host arena and disk tier run on one thread with one simulated clock and one simulated disk, and a
// seed decides everything. The model is a hash of all KV that a token sees (window_model.h), so a
// wrong block anywhere shows as a wrong answer. Conversations come over a simulated network and are
// kept in the real stores of turns and pins (simulated_sessions.h).
//
//   KVGATE_SIMULATION_SEED=N        replays one seed
//   KVGATE_SIMULATION_OPERATIONS=N  sets the number of operations per seed
//   KVGATE_TEST_FULL=1              runs a million operations over all seeds
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine_loop.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/simulation/simulated_sessions.h"
#include "tests/engine/simulation/simulated_store.h"
#include "tests/engine/window_model.h"

namespace kvgate::engine {
namespace {

using Tokens = std::vector<TokenId>;
using std::chrono::microseconds;
using Clock = SteadyClock;

// The bound on how many later requests may overtake one: 4 better cached ones and 16 for want of
// room (schedule/README.md), each times every tenant's share of the turns, plus those under way.
constexpr int kOvertakenMax = 400;
// Every answer comes within this time on the simulated clock.
constexpr std::chrono::seconds kAnswerMax{600};
constexpr size_t kLiveMax = 24;

struct Totals {
  uint64_t num_operations = 0;
  uint64_t num_requests = 0;
  uint64_t num_answers = 0;
  uint64_t num_faults = 0;
  uint64_t num_crashes = 0;
  uint64_t num_device_tokens = 0;
  uint64_t num_host_tokens = 0;
  uint64_t num_disk_tokens = 0;
  uint64_t num_preemptions = 0;
  uint64_t num_restores_cut = 0;
  SessionTotals sessions;
};

class Simulation {
 public:
  Simulation(uint64_t seed, TestModel& shared, Totals& totals)
      : random_(seed), shared_(shared), totals_(totals) {
    Clock::Simulate(&now_);
    Draw();
    sessions_ = std::make_unique<SimulatedSessions>([this](uint64_t bound) { return Below(bound); },
                                                    now_, store_, totals_.sessions);
    Start();
  }
  ~Simulation() {
    Stop(false);
    sessions_.reset();
    Clock::Simulate(nullptr);
  }

  // Runs `num_operations`. Returns false if an invariant does not hold.
  bool Run(int num_operations) {
    for (int i = 0; i < num_operations && !testing::Test::HasFailure(); ++i) {
      Operate();
      Pump(static_cast<int>(Below(4)));
      if (sessions_->is_killed()) Restart(true);
      if (i % 64 == 63) engine_->CheckIntegrity();
      ++totals_.num_operations;
    }
    Settle();
    sessions_->Compare();
    return !testing::Test::HasFailure();
  }
  // Returns a hash of all that happened, in order.
  uint64_t trace() const { return trace_; }

 private:
  struct Live {
    RequestId id;
    Tokens prompt;
    Tokens answer;  // the model's own answer, and perhaps more tokens
    size_t num_tokens = 0;
    std::string turn = {};  // the turn's id; empty if it is in no conversation
    std::shared_ptr<CollectingSink> sink;
    Clock::time_point submitted_at;
    Clock::duration jumped_before{};
    int num_overtaken = 0;
    bool is_cancelled = false;
  };
  struct DiskTask {
    tier::StoreTier::Task task;
    Clock::time_point done_at;
    bool is_read = false;
  };

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool Chance(int percent) { return Below(100) < static_cast<uint64_t>(percent); }
  void Note(uint64_t value) {
    trace_ = (trace_ ^ value) * 0x9e3779b97f4a7c15ULL;
    trace_ ^= trace_ >> 31;
  }

  // Draws the machine of this seed.
  void Draw() {
    model_options_.windows = {0};
    if (Chance(40)) model_options_.windows.push_back(40);
    model_options_.on_tokens = [this](size_t count) { now_ += count * token_time_; };
    const bool has_windows = model_options_.windows.size() > 1;
    options_.is_driven = true;
    options_.model_watch_interval = {};
    options_.kv_bytes = (has_windows ? 16 : 2) * 1024 + Below(10) * 1024;
    options_.host_bytes = Chance(60) ? 4096 + Below(24) * 1024 : 0;
    options_.sequences_max = 1 + static_cast<int>(Below(12));
    options_.step_tokens_max = 32 << Below(4);
    options_.mixed_step_tokens_max = 32 << Below(3);
    options_.short_prompt_tokens = 64;
    options_.tenant_kv_share = Chance(30) ? 0.6 : 1.0;
    options_.write_back_bytes_max = 1024 + Below(32) * 1024;
    num_loaders_ = 1 + static_cast<int>(Below(3));
    token_time_ = microseconds(1 + Below(2000));
    has_disk_ = Chance(85);
    if (has_disk_ && Chance(30)) {
      options_.write_admission =
          std::make_shared<tier::WriteAdmission>(tier::WriteAdmission::Options{
              .bytes_per_day = 100'000, .burst_bytes_min = 4096, .now = [] {
                return Clock::now();
              }});
    }
  }

  void Start() {
    auto opened = Engine::Open(options_, std::make_unique<WindowModel>(model_options_),
                               *shared_.backend, *shared_.tokenizer, has_disk_ ? &store_ : nullptr);
    ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
    engine_.reset(static_cast<EngineLoop*>(opened->release()));
  }

  // Stops the engine. With `is_crash` the disk tasks under way fail.
  void Stop(bool is_crash) {
    store_.refuses_puts = is_crash;
    for (DiskTask& task : tasks_) {
      engine_->disk_tier()->Perform(task.task, nullptr);
      engine_->disk_tier()->End(task.task);
    }
    tasks_.clear();
    Count();
    engine_.reset();
    for (Live& live : live_) {
      live.is_cancelled = true;  // the end of the process cancels it
      live.turn.clear();
      Check(live);
    }
    live_.clear();
    sessions_->Stop(is_crash);
    store_.refuses_puts = false;
  }

  void Count() {
    const EngineStats stats = engine_->Stats();
    totals_.num_device_tokens += stats.num_device_tokens;
    totals_.num_host_tokens += stats.num_host_tokens;
    totals_.num_disk_tokens += stats.num_disk_tokens;
    totals_.num_preemptions += stats.num_preemptions;
    totals_.num_restores_cut += stats.num_restores_cut;
    totals_.num_faults += std::exchange(store_.num_faults, 0);
  }

  void Operate() {
    const uint64_t kind = Below(1000);
    Note(kind);
    if (kind < 150) return sessions_->Operate();
    if (kind < 450) return SubmitPrompt();
    if (kind < 500) return CancelOne();
    if (kind < 540) return Pin();
    if (kind < 780) return Advance(microseconds(1 + Below(200'000)));
    if (kind < 800) return Advance(std::chrono::seconds(1 + Below(100)));
    if (kind < 850) return (void)store_.Flush();
    if (kind < 880) return store_.EvictLeaves(1 + Below(8));
    if (kind < 960) return ChangeDisk();
    if (kind < 980) return SubmitBurst();
    if (kind < 988) return Restart(true);
    if (kind < 994) return Restart(false);
    Settle();
  }

  // Returns a prompt. Prompts share beginnings, as those of agents do; the longest fill most of a
  // small pool.
  Tokens Prompt(int number) const {
    Tokens prompt;
    const int branch = number % 5;
    const int leaf = number / 5;
    const int length = 20 + 23 * (number % 7);
    for (int i = 0; i < length; ++i) {
      const int salt = i < 33 ? 0 : i < 70 ? 1 + branch : 100 + branch * 40 + leaf;
      prompt.push_back(3 + (i * 31 + salt * 57) % 580);
    }
    return prompt;
  }
  // Returns the model's answer without any engine.
  const Tokens& Answer(int number) {
    Tokens& answer = answers_[number];
    if (answer.empty()) {
      answer = WindowModel(model_options_without_time()).Answer(Prompt(number), 40);
    }
    return answer;
  }
  WindowModel::Options model_options_without_time() const {
    WindowModel::Options options = model_options_;
    options.on_tokens = nullptr;
    return options;
  }

  void SubmitPrompt() {
    const auto number = static_cast<int>(Below(35));
    const size_t num_tokens = Chance(10) ? 0 : 1 + Below(Chance(20) ? 40 : 6);
    Live live;
    live.prompt = Prompt(number);
    live.answer = Answer(number);
    live.num_tokens = num_tokens;
    Submit(std::move(live), "tenant" + std::to_string(Below(3)));
  }
  // Returns false if the request is refused at once, because it is longer than the context or a
  // tenant's share, or because too many are under way.
  bool Submit(Live live, std::string tenant) {
    if (live_.size() >= kLiveMax) return false;
    live.sink = std::make_shared<CollectingSink>();
    GenerationRequest request =
        MakeRequest(live.prompt, static_cast<int>(live.num_tokens), live.sink);
    request.hash_logits = false;
    request.cache_salt = std::move(tenant);
    if (Chance(30) && live.turn.empty()) request.num_stable_tokens = 33;
    const Result<RequestId> id = engine_->Submit(std::move(request));
    if (!id) {
      EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument) << id.error().ToString();
      return false;
    }
    live.id = *id;
    live.submitted_at = now_;
    live.jumped_before = jumped_;
    // The context may cut the number of tokens asked for.
    const int room = engine_->info().context_tokens_max - static_cast<int>(live.prompt.size());
    live.num_tokens = std::min<size_t>(live.num_tokens, static_cast<size_t>(std::max(room, 0)));
    live_.push_back(std::move(live));
    ++totals_.num_requests;
    return true;
  }
  void ReceiveTurns() {
    while (auto asked = sessions_->Receive()) {
      const std::string turn = asked->id;
      Live live;
      live.prompt = std::move(asked->prompt);
      live.num_tokens = static_cast<size_t>(asked->num_tokens);
      live.answer =
          WindowModel(model_options_without_time()).Answer(live.prompt, asked->num_tokens);
      live.turn = turn;
      if (!Submit(std::move(live), asked->tenant)) sessions_->Answer(turn, std::nullopt);
    }
  }
  void SubmitBurst() {
    for (uint64_t i = Below(12); i > 0; --i) SubmitPrompt();
  }
  void CancelOne() {
    if (live_.empty()) return;
    Live& live = live_[Below(live_.size())];
    live.is_cancelled = true;
    engine_->Cancel(live.id);
  }
  void Pin() {
    PinnedPrefix pin{.tokens = Prompt(static_cast<int>(Below(35))),
                     .cache_salt = "tenant" + std::to_string(Below(3)),
                     .priority = static_cast<int>(Below(3)),
                     .is_hint = Chance(50)};
    if (Chance(50)) pin.until = now_ + std::chrono::seconds(Below(60));
    engine_->Pin(std::move(pin));
  }
  void ChangeDisk() {
    read_time_ = microseconds(Chance(20) ? 1'000'000 + Below(5'000'000) : 20 + Below(20'000));
    write_time_ = microseconds(20 + Below(50'000));
    hang_percent_ = Chance(20) ? static_cast<int>(Below(30)) : 0;
    store_.refuses_puts = Chance(15);
    store_.gets_to_damage = Chance(25) ? 1 + static_cast<int>(Below(6)) : 0;
  }
  void Restart(bool is_crash) {
    if (!is_crash) Settle();
    Stop(is_crash);
    if (is_crash) {
      store_.LoseUnflushed();
      ++totals_.num_crashes;
      ++totals_.num_faults;
    } else {
      (void)store_.Flush();
    }
    sessions_->Start();
    Start();
  }

  // Moves the clock while the engine has no turn; this time does not count as waiting.
  void Advance(Clock::duration time) {
    now_ += time;
    jumped_ += time;
    EndDiskTasks();
  }

  void BeginDiskTasks() {
    tier::StoreTier* const tier = engine_->disk_tier();
    if (tier == nullptr) return;
    const auto begin = [&](std::optional<tier::StoreTier::Task> task, bool is_read) {
      if (!task.has_value()) return false;
      Clock::duration time = is_read ? read_time_ : write_time_;
      if (hang_percent_ > 0 && Chance(hang_percent_)) {
        time = std::chrono::seconds(20);
        ++totals_.num_faults;
      }
      tasks_.push_back({.task = std::move(*task), .done_at = now_ + time, .is_read = is_read});
      return true;
    };
    const auto count = [&](bool is_read) {
      return std::ranges::count(tasks_, is_read, &DiskTask::is_read);
    };
    while (count(true) < num_loaders_ && begin(tier->TakeRead(), true)) {
    }
    while (count(false) < 1 && begin(tier->TakeWrite(), false)) {
    }
  }
  void EndDiskTasks() {
    for (auto task = tasks_.begin(); task != tasks_.end();) {
      if (task->done_at > now_) {
        ++task;
        continue;
      }
      engine_->disk_tier()->Perform(task->task, nullptr);
      engine_->disk_tier()->End(task->task);
      Note(task->task.num_ok);
      task = tasks_.erase(task);
    }
  }

  // Runs one turn, and advances the clock to the next event.
  void Turn() {
    const microseconds wait = engine_->Turn(microseconds(0));
    BeginDiskTasks();
    if (wait.count() > 0) {
      Clock::time_point next = now_ + wait;
      for (const DiskTask& task : tasks_) next = std::min(next, std::max(task.done_at, now_));
      next = std::min(next, std::max(sessions_->NextAt(), now_));
      now_ = next;
    }
    EndDiskTasks();
    ReceiveTurns();
    TakeAnswers();
  }
  void Pump(int num_turns) {
    for (int i = 0; i < num_turns; ++i) Turn();
  }
  // Runs turns until nobody waits. Faults go on, but a hang ends at kAnswerMax.
  void Settle() {
    const Clock::time_point began = now_;
    while (!live_.empty() || !tasks_.empty() || !IsIdle()) {
      Turn();
      ASSERT_LT(now_ - began, kAnswerMax) << live_.size() << " requests do not end";
      if (testing::Test::HasFailure()) return;
    }
    engine_->CheckIntegrity();
    const EngineStats stats = engine_->Stats();
    EXPECT_EQ(stats.num_running + stats.num_waiting, 0u);
    EXPECT_EQ(stats.num_blocks_used, 0u) << "a block is lost";
    EXPECT_EQ(stats.num_window_blocks_used, 0u) << "a window's block is lost";
    EXPECT_EQ(stats.write_back_bytes_queued, 0u);
  }
  bool IsIdle() const {
    const EngineStats stats = engine_->Stats();
    return stats.num_blocks_used == 0 && stats.num_window_blocks_used == 0;
  }

  void TakeAnswers() {
    for (auto live = live_.begin(); live != live_.end();) {
      if (!live->sink->has_finished()) {
        const auto waited = now_ - live->submitted_at - (jumped_ - live->jumped_before);
        EXPECT_LT(waited, kAnswerMax) << "a request starves";
        ++live;
        continue;
      }
      Check(*live);
      EndTurn(*live);
      for (Live& other : live_) {
        const bool overtook =
            other.submitted_at < live->submitted_at && other.sink->num_tokens() == 0;
        if (!overtook) continue;
        ++other.num_overtaken;
        EXPECT_LT(other.num_overtaken, kOvertakenMax) << "a request is passed over for ever";
      }
      live = live_.erase(live);
    }
  }
  void EndTurn(const Live& live) {
    if (live.turn.empty()) return;
    const bool is_whole = live.sink->WaitForFinish().reason == FinishReason::kLength;
    sessions_->Answer(live.turn, is_whole ? std::optional(live.sink->tokens()) : std::nullopt,
                      !is_whole);
  }
  void Check(const Live& live) {
    ASSERT_TRUE(live.sink->has_finished()) << "an engine ends without an answer";
    const FinishEvent& finish = live.sink->WaitForFinish();
    const Tokens& tokens = live.sink->tokens();
    const Tokens& expected = live.answer;
    Note(static_cast<uint64_t>(finish.reason));
    Note(tokens.size());
    for (const TokenId token : tokens) Note(static_cast<uint64_t>(token));
    Note(static_cast<uint64_t>(now_.time_since_epoch().count()));
    if (finish.reason == FinishReason::kCancelled) {
      EXPECT_TRUE(live.is_cancelled) << "nobody cancelled it";
    } else {
      ASSERT_EQ(finish.reason, FinishReason::kLength)
          << (finish.error ? finish.error->ToString() : "");
      ASSERT_EQ(tokens.size(), live.num_tokens);
      ++totals_.num_answers;
    }
    ASSERT_LE(tokens.size(), expected.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      ASSERT_EQ(tokens[i], expected[i])
          << live.prompt.size() << " tokens, token " << i << ": not the cold answer";
    }
  }

  std::mt19937_64 random_;
  TestModel& shared_;
  Totals& totals_;
  Clock::time_point now_{std::chrono::hours(1)};
  Clock::duration jumped_{};
  uint64_t trace_ = 0;
  EngineOptions options_;
  WindowModel::Options model_options_;
  microseconds token_time_{0};
  int num_loaders_ = 1;
  bool has_disk_ = true;
  microseconds read_time_{200};
  microseconds write_time_{200};
  int hang_percent_ = 0;
  store::SimulatedStore store_;
  std::unique_ptr<EngineLoop> engine_;
  std::deque<DiskTask> tasks_;
  std::deque<Live> live_;
  std::map<int, Tokens> answers_;
  std::unique_ptr<SimulatedSessions> sessions_;
};

uint64_t NumberFrom(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

class SimulationTest : public testing::Test {
 protected:
  SimulationTest() : model_(TestModel::Make("llama", kernels::DType::kF16)) {}
  // Returns the trace of a seed; a failure prints how to replay it.
  uint64_t Simulate(uint64_t seed, int num_operations) {
    SCOPED_TRACE(testing::Message()
                 << "replay: KVGATE_SIMULATION_SEED=" << seed
                 << " KVGATE_SIMULATION_OPERATIONS=" << num_operations
                 << " engine_simulation_test --gtest_filter=SimulationTest.Every*");
    Simulation simulation(seed, model_, totals_);
    simulation.Run(num_operations);
    return simulation.trace();
  }
  TestModel model_;
  Totals totals_;
};

TEST_F(SimulationTest, EverySeedAnswersAsColdAndLosesNothing) {
  const bool is_full = NumberFrom("KVGATE_TEST_FULL", 0) == 1;
  const auto num_operations =
      static_cast<int>(NumberFrom("KVGATE_SIMULATION_OPERATIONS", is_full ? 4000 : 250));
  const uint64_t only = NumberFrom("KVGATE_SIMULATION_SEED", 0);
  const uint64_t first = only != 0 ? only : 1;
  const uint64_t last =
      only != 0 ? only : NumberFrom("KVGATE_SIMULATION_SEEDS", is_full ? 250 : 40);
  for (uint64_t seed = first; seed <= last && !HasFailure(); ++seed) {
    Simulate(seed, num_operations);
  }
  std::printf(
      "simulated: %lu operations, %lu requests, %lu answers compared, %lu faults, %lu crashes; "
      "tokens from pool %lu, host %lu, disk %lu; %lu preemptions, %lu loads given up\n",
      totals_.num_operations, totals_.num_requests, totals_.num_answers, totals_.num_faults,
      totals_.num_crashes, totals_.num_device_tokens, totals_.num_host_tokens,
      totals_.num_disk_tokens, totals_.num_preemptions, totals_.num_restores_cut);
  const SessionTotals& sessions = totals_.sessions;
  std::printf(
      "conversations: %lu turns and %lu pins acknowledged, %lu compared, %lu turns absent as they "
      "may be; %lu sent again, %lu answered from the store; %lu faults, %lu losses of power\n",
      sessions.num_turns, sessions.num_pins, sessions.num_compared, sessions.num_explained,
      sessions.num_resent, sessions.num_repeated, sessions.num_faults, sessions.num_power_losses);
  if (only != 0) return;
  // The test would prove nothing if none of this happened.
  EXPECT_GT(totals_.num_answers, 100u);
  EXPECT_GT(totals_.num_faults, 20u);
  EXPECT_GT(totals_.num_crashes, 5u);
  EXPECT_GT(totals_.num_device_tokens, 1000u);
  EXPECT_GT(totals_.num_host_tokens, 1000u);
  EXPECT_GT(totals_.num_disk_tokens, 1000u);
  EXPECT_GT(totals_.num_preemptions, 0u);
  EXPECT_GT(sessions.num_turns, 200u);
  EXPECT_GT(sessions.num_pins, 50u);
  EXPECT_GT(sessions.num_explained, 0u);
  EXPECT_GT(sessions.num_repeated, 0u);
  EXPECT_GT(sessions.num_power_losses, 5u);
}

TEST_F(SimulationTest, ASeedRepeatsToTheBit) {
  for (const uint64_t seed : {11u, 12u, 13u}) {
    EXPECT_EQ(Simulate(seed, 120), Simulate(seed, 120)) << seed;
  }
  EXPECT_NE(Simulate(11, 120), Simulate(12, 120));
}

}  // namespace
}  // namespace kvgate::engine
