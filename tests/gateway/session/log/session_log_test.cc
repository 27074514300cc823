#include "gateway/session/log/session_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gateway/session/log/history.h"
#include "store/rocks_data_directory.h"
#include "tests/gateway/service/kept_responses.h"
#include "tests/gateway/session/session_turns.h"
#include "tests/store/memory_meta_store.h"
#include "tests/store/store_fixture.h"

namespace kvgate::session::log {
namespace {

using test::SaidOf;
using test::TurnOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SessionLogTest : public ::testing::Test {
 protected:
  using Reach = SessionLog::Reach;
  SessionLog::Place At(std::string_view key, std::string_view tenant = "t") {
    return {.tenant = tenant, .key = key};
  }
  void Add(std::string_view key, const LoggedTurn& turn, std::string_view tenant = "t") {
    const auto added = log.Append(At(key, tenant), Dialect::kChatCompletions, turn);
    EXPECT_TRUE(added) << added.error().ToString();
  }
  std::vector<LoggedTurn> Branch(std::string_view key, Reach reach = Reach::kBranch) {
    const auto root = log.Find(At(key));
    EXPECT_TRUE(root);
    const auto head = log.Head(At(key), *root);
    EXPECT_TRUE(head && *head);
    const auto loaded = log.Load(At(key), *root, (*head)->id, reach);
    EXPECT_TRUE(loaded) << loaded.error().ToString();
    return loaded ? *loaded : std::vector<LoggedTurn>();
  }
  static std::vector<std::string> IdsOf(const std::vector<LoggedTurn>& turns) {
    std::vector<std::string> ids;
    for (const LoggedTurn& turn : turns) ids.push_back(turn.id);
    return ids;
  }

  store::MemoryMetaStore meta;
  std::unique_ptr<store::meta::TurnStore> turns = test::OpenTurns(meta);
  SessionLog log{turns.get()};
};

TEST_F(SessionLogTest, TurnsAreKeptInOrderAndOutliveTheProcess) {
  EXPECT_FALSE(log.Find(At("k")));
  Add("k", TurnOf(1, {"a"}));
  Add("k", TurnOf(2, {"b"}));
  const auto again = test::OpenTurns(meta);
  const SessionLog restarted(again.get());
  const auto root = restarted.Find(At("k"));
  ASSERT_TRUE(root);
  EXPECT_EQ(root->key, "k");
  EXPECT_EQ(root->dialect, Dialect::kChatCompletions);
  const auto branch = restarted.Load(At("k"), *root, "turn_2", Reach::kBranch);
  ASSERT_TRUE(branch);
  EXPECT_THAT(SaidOf(HistoryOf(*branch).messages), ElementsAre("a", "A1", "b", "A2"));
  EXPECT_EQ(branch->front().parent, "");
}

TEST_F(SessionLogTest, ABranchGoesOnFromWhereItDiverges) {
  Add("k", TurnOf(1, {"a"}));
  Add("k", TurnOf(2, {"b"}));
  LoggedTurn other = TurnOf(3, {"c"});
  other.parent = "turn_1";
  Add("k", other);
  EXPECT_THAT(IdsOf(Branch("k")), ElementsAre("turn_1", "turn_3"));
  EXPECT_THAT(log.All(At("k"), *log.Find(At("k"))).value(), SizeIs(3));
}

TEST_F(SessionLogTest, APromptIsReadOnlyAsFarAsItGoes) {
  Add("k", TurnOf(1, {"a"}));
  Add("k", TurnOf(2, {"b"}));
  LoggedTurn third = TurnOf(3, {"c"});
  third.compaction = Compaction{.from_turn = "turn_2", .from_message = 0, .num_messages = 2};
  Add("k", third);
  Add("k", TurnOf(4, {"d"}));
  EXPECT_THAT(IdsOf(Branch("k", Reach::kPrompt)), ElementsAre("turn_2", "turn_3", "turn_4"));
  EXPECT_THAT(Branch("k"), SizeIs(4));
}

TEST_F(SessionLogTest, TenantsShareNothing) {
  Add("k", TurnOf(1, {"a"}));
  EXPECT_EQ(log.Find(At("k", "other")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(log.Remove(At("k", "other")).error().code, ErrorCode::kNotFound);
  Add("k", TurnOf(1, {"x"}), "other");
  EXPECT_THAT(SaidOf(Branch("k").front().input), ElementsAre("a"));
  EXPECT_THAT(log.List("other", 10, 0)->sessions, SizeIs(1));
}

TEST_F(SessionLogTest, SessionsAreListedInPages) {
  for (const char* key : {"one", "two", "three"}) {
    LoggedTurn turn = TurnOf(1, {key});
    turn.id = std::string("turn_") + key;
    Add(key, turn);
  }
  const auto first = log.List("t", 2, 0);
  ASSERT_TRUE(first);
  ASSERT_THAT(first->sessions, SizeIs(2));
  EXPECT_EQ(first->sessions[0].key, "three");
  EXPECT_TRUE(first->has_more);
  const auto rest = log.List("t", 2, first->sessions.back().order);
  ASSERT_TRUE(rest);
  ASSERT_THAT(rest->sessions, SizeIs(1));
  EXPECT_EQ(rest->sessions[0].key, "one");
  EXPECT_FALSE(rest->has_more);
}

TEST_F(SessionLogTest, ARemovedSessionLeavesNothing) {
  Add("k", TurnOf(1, {"a"}));
  Add("other", [] {
    LoggedTurn turn = TurnOf(1, {"b"});
    turn.id = "turn_other";
    return turn;
  }());
  ASSERT_TRUE(log.Remove(At("k")));
  EXPECT_FALSE(log.Find(At("k")));
  EXPECT_EQ(log.Remove(At("k")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(turns->Stats().num_turns, 2u) << "the other session's root and turn";
  Add("k", TurnOf(1, {"new"}));
  EXPECT_THAT(SaidOf(Branch("k").front().input), ElementsAre("new"));
}

TEST_F(SessionLogTest, ACopyGoesOnByItself) {
  Add("k", TurnOf(1, {"a"}));
  LoggedTurn second = TurnOf(2, {"b"});
  second.compaction = Compaction{.from_turn = "turn_1", .from_message = 1, .num_messages = 1};
  Add("k", second);
  const std::vector<LoggedTurn> all = Branch("k");
  ASSERT_TRUE(log.Create({.place = At("copy"), .turns = all, .request_id = "r"}));
  ASSERT_TRUE(log.Remove(At("k")));
  const std::vector<LoggedTurn> copied = Branch("copy");
  EXPECT_THAT(SaidOf(HistoryOf(copied).messages), ElementsAre("A1", "b", "A2"));
  EXPECT_EQ(copied[1].parent, copied[0].id);
  const auto again = log.Create({.place = At("copy"), .turns = all, .request_id = "s"});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().field, "key");
}

TEST_F(SessionLogTest, ACopyIsWholeOrThereIsNone) {
  LoggedTurn lost = TurnOf(2, {"b"});
  lost.parent = "turn_of_nobody";
  const std::vector<LoggedTurn> turns_with_a_gap = {TurnOf(1, {"a"}), lost};
  EXPECT_FALSE(log.Create({.place = At("copy"), .turns = turns_with_a_gap, .request_id = "r"}));
  EXPECT_FALSE(log.Find(At("copy")));
  EXPECT_EQ(turns->Stats().num_turns, 0u);
}

TEST_F(SessionLogTest, AFullDiskStoresNothing) {
  Add("k", TurnOf(1, {"a"}));
  meta.refuses = true;
  EXPECT_FALSE(log.Append(At("k"), Dialect::kChatCompletions, TurnOf(2, {"b"})));
  meta.refuses = false;
  EXPECT_THAT(IdsOf(Branch("k")), ElementsAre("turn_1"));
}

TEST_F(SessionLogTest, WithoutAStoreNothingIsKept) {
  SessionLog none(nullptr);
  EXPECT_FALSE(none.keeps());
  EXPECT_EQ(none.Append(At("k"), Dialect::kChatCompletions, TurnOf(1, {"a"})).error().code,
            ErrorCode::kUnsupported);
  EXPECT_THAT(none.List("t", 10, 0)->sessions, IsEmpty());
  store::MemoryMetaStore other;
  const auto off = test::OpenTurns(other, /*enabled=*/false);
  EXPECT_FALSE(SessionLog(off.get()).keeps());
}

int64_t ResidentMiB() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages >> pages;
  return pages * 4096 / (1 << 20);
}

double ThreadMs() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double P99(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() * 99 / 100];
}

// KVGATE_TEST_FULL=1: a hundred thousand, whose times and memory are bounded; else fewer, which are
// not. Other processes count in the time that passes, and not in that of the processor.
TEST(SessionLogManyTest, AppendsCostTheSameHoweverManySessionsThereAre) {
  const bool is_full = std::getenv("KVGATE_TEST_FULL") != nullptr;
  const int num_sessions = is_full ? 100'000 : 1'000;
  const TempFolder temporary;
  const auto directory = store::DataDirectory::Open({.directory = temporary.path()}).value();
  const auto turns = store::meta::TurnStore::Open({.meta = directory->meta()}).value();
  SessionLog log(turns.get());
  std::vector<double> passed_ms;
  std::vector<double> used_ms;
  int64_t early_mib = 0;
  for (int i = 0; i < num_sessions; ++i) {
    LoggedTurn turn = TurnOf(1, {std::string(400, 'x')});
    turn.id = TurnIdOf(std::to_string(i));
    const std::string key = "session-" + std::to_string(i);
    const auto begin = std::chrono::steady_clock::now();
    const double used = ThreadMs();
    ASSERT_TRUE(log.Append({.tenant = "t", .key = key}, Dialect::kChatCompletions, turn));
    used_ms.push_back(ThreadMs() - used);
    const std::chrono::duration<double, std::milli> passed =
        std::chrono::steady_clock::now() - begin;
    passed_ms.push_back(passed.count());
    if (i == num_sessions / 5) early_mib = ResidentMiB();
  }
  const int64_t grown_mib = ResidentMiB() - early_mib;
  std::printf(
      "%d sessions: an append took %.3f ms at p99, %.3f of the processor's; %lld MiB more "
      "since a fifth of them\n",
      num_sessions, P99(passed_ms), P99(used_ms), static_cast<long long>(grown_mib));
  EXPECT_TRUE(log.Find({.tenant = "t", .key = "session-0"}));
  if (!is_full) return;
  EXPECT_LE(P99(used_ms), 1.0);
  EXPECT_LE(grown_mib, 32);
}

}  // namespace
}  // namespace kvgate::session::log
