// Seeded lives of data directories under every kind of disk fault: no wrong data is served, no
// process aborts, and no acknowledged write is lost silently. KVGATE_TEST_FULL=1 runs more lives,
// KVGATE_FAULT_LIVES=N sets their number, and KVGATE_FAULT_SEED=N sets the first seed, which
// reproduces a failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "tests/store/fault_life.h"
#include "tests/wait_until.h"

namespace kvgate::store {

using meta::MetaTable;

namespace {

namespace fs = std::filesystem;

constexpr const char* kLivesVariable = "KVGATE_STORE_TEST_LIVES";  // "KIND FIRST NUM"

uint64_t NumberOf(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

// Runs one seed after the other and notes how each went.
TEST(FaultChild, LivesUntilItsSeedsAreOver) {
  const char* path = std::getenv(kChildVariable);
  const char* lives = std::getenv(kLivesVariable);
  if (path == nullptr || lives == nullptr) GTEST_SKIP() << "runs as a child of the tests below";
  std::istringstream words(lives);
  int kind = 0;
  uint64_t first = 0;
  uint64_t num = 0;
  words >> kind >> first >> num;
  std::ofstream notes(fs::path(path) / "notes", std::ios::app);
  for (uint64_t seed = first; seed < first + num; ++seed) {
    notes << "begin " << seed << std::endl;
    FaultLife life(static_cast<FaultLife::Kind>(kind), seed, fs::path(path) / "data");
    for (const std::string& wrong : life.Run()) {
      notes << "wrong " << seed << ' ' << wrong << std::endl;
    }
    FaultTally tally = life.tally();
    notes << "end " << seed;
    tally.ForEach([&](uint64_t count) { notes << ' ' << count; });
    notes << std::endl;
  }
  notes << "over" << std::endl;
  ::_exit(0);
}

struct Report {
  FaultTally tally;
  uint64_t num_lives = 0;
  uint64_t next_seed = 0;
  bool over = false;
  std::vector<std::string> wrong;
};

void ReadNotes(const fs::path& path, Report& report) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string what;
    uint64_t seed = 0;
    words >> what >> seed;
    if (what == "begin") report.next_seed = seed + 1;
    if (what == "wrong") report.wrong.push_back(line);
    if (what == "over") report.over = true;
    if (what != "end") continue;
    FaultTally life;
    life.ForEach([&](uint64_t& num) { words >> num; });
    ++report.num_lives;
    std::vector<uint64_t> nums;
    life.ForEach([&](uint64_t num) { nums.push_back(num); });
    auto num = nums.begin();
    report.tally.ForEach([&](uint64_t& sum) { sum += *num++; });
  }
}

// Runs the lives in child processes, so that an abort is reported with its seed.
Report Live(FaultLife::Kind kind, uint64_t first, uint64_t num_lives) {
  Report report;
  report.next_seed = first;
  const uint64_t end = first + num_lives;
  while (report.next_seed < end && report.wrong.size() < 20) {
    const TempFolder directory(FastDirectory());
    const std::string lives =
        fmt::format("{} {} {}", static_cast<int>(kind), report.next_seed, end - report.next_seed);
    ::setenv(kLivesVariable, lives.c_str(), 1);
    ChildProcess child("FaultChild.LivesUntilItsSeedsAreOver", directory.path());
    ::unsetenv(kLivesVariable);
    const int status = child.Wait();
    report.over = false;
    ReadNotes(directory.path() / "notes", report);
    if (report.over) break;
    report.wrong.push_back(
        fmt::format("seed {}: the process ended with status {:#x}", report.next_seed - 1, status));
  }
  return report;
}

void Expect(const char* name, const Report& report) {
  for (const std::string& wrong : report.wrong) ADD_FAILURE() << name << ": " << wrong;
  const FaultTally& tally = report.tally;
  const auto calls = [&](Fault fault) { return tally.num_calls[static_cast<size_t>(fault)]; };
  fmt::print(
      "{}: {} lives, {} injected faults: calls {} failed, {} found the disk full, {} written "
      "short, "
      "{} lied that they had synced, {} read a wrong bit; files {} bits flipped, {} otherwise "
      "changed; {} kills; {} power losses that cut {} files\n",
      name, report.num_lives, tally.num_faults(), calls(Fault::kError), calls(Fault::kFull),
      calls(Fault::kShortWrite), calls(Fault::kLyingSync), calls(Fault::kFlippedRead),
      tally.num_bits, tally.num_changes, tally.num_kills, tally.num_power_losses, tally.num_cut);
  fmt::print(
      "{}: {} operations, {} answers compared: {} wrong or aborted; {} acknowledged and lost, "
      "which was said\n",
      name, tally.num_operations, tally.num_compared, report.wrong.size(), tally.num_lost_said);
  EXPECT_GT(tally.num_faults(), 0u);
}

uint64_t NumLives(uint64_t short_run) {
  const bool full = NumberOf("KVGATE_TEST_FULL", 0) == 1;
  return NumberOf("KVGATE_FAULT_LIVES", full ? 100 * short_run : short_run);
}

TEST(RocksFaults, CallsThatFailCostNothingThatWasAcknowledged) {
  Expect("calls", Live(FaultLife::Kind::kCalls, NumberOf("KVGATE_FAULT_SEED", 1), NumLives(25)));
}

TEST(RocksFaults, WrongReadsServeNothingWrong) {
  Expect("reads", Live(FaultLife::Kind::kReads, NumberOf("KVGATE_FAULT_SEED", 1), NumLives(5)));
}

TEST(RocksFaults, DamagedFilesServeNothingWrongAndAreSaid) {
  Expect("damage", Live(FaultLife::Kind::kDamage, NumberOf("KVGATE_FAULT_SEED", 1), NumLives(40)));
}

TEST(RocksFaults, ACallThatHangsHoldsNobodyElse) {
  const TempFolder directory;
  const auto system = std::make_shared<FaultFileSystem>();
  const auto env = file::MakePrivateEnv(system);
  StoreOptions options{.directory = directory.path(), .kv_bytes_max = uint64_t{16} << 20};
  options.env = env.get();
  auto data = DataDirectory::Open(options).value();
  const auto chain = MakeChain(1, 2, 1000);
  ASSERT_TRUE(data->kv().Put(Records(chain)));
  ASSERT_TRUE(data->kv().Flush());
  ASSERT_TRUE(data->meta().Put(MetaTable::kTurns, "a", "b"));
  system->FailNth(1, Fault::kHang);
  std::thread writer([&] { EXPECT_TRUE(data->meta().Put(MetaTable::kTurns, "c", "d")); });
  EXPECT_TRUE(
      test::WaitUntil([&] { return system->num_faults(Fault::kHang) == 1; }, "the disk hangs"));
  EXPECT_EQ(Read(data->kv(), chain[1]), Found::kRight);
  EXPECT_EQ(data->meta().Get(MetaTable::kTurns, "a").value(), "b");
  system->Release();
  writer.join();
  EXPECT_EQ(data->meta().Get(MetaTable::kTurns, "c").value(), "d");
}

TEST(RocksFaults, ADiskThatIsFullAtTheStartComesBackByItself) {
  const TempFolder directory;
  const auto system = std::make_shared<FaultFileSystem>();
  const auto env = file::MakePrivateEnv(system);
  StoreOptions options{.directory = directory.path(), .kv_bytes_max = uint64_t{16} << 20};
  options.env = env.get();
  const auto chain = MakeChain(1, 2, 1000);
  for (const bool is_new : {true, false}) {
    system->FailAtRandom({.probability = 1, .writes_only = true}, 1);
    auto data = DataDirectory::Open(options);
    ASSERT_TRUE(data.has_value()) << data.error().ToString();
    EXPECT_FALSE((*data)->meta().Put(MetaTable::kTurns, "a", "b").has_value());
    EXPECT_FALSE((*data)->meta().Stats().error.empty());
    EXPECT_FALSE((*data)->kv().Stats().error.empty());
    if (!is_new) {
      EXPECT_EQ((*data)->meta().Get(MetaTable::kTurns, "kept").value(), "before")
          << "what is there can be read";
    }
    system->Heal();
    EXPECT_TRUE(test::WaitUntil(
        [&] { return (*data)->meta().Put(MetaTable::kTurns, "a", "b").has_value(); },
        "a healed disk takes a turn"));
    EXPECT_TRUE(
        test::WaitUntil([&] { return (*data)->kv().Stats().error.empty(); }, "the error is gone"));
    ASSERT_TRUE((*data)->kv().Put(Records(chain)));
    ASSERT_TRUE((*data)->kv().Flush());
    ASSERT_TRUE((*data)->meta().Put(MetaTable::kTurns, "kept", "before"));
    const uint64_t seed = (*data)->hash_seed();
    data->reset();
    data = DataDirectory::Open(options);
    EXPECT_EQ((*data)->hash_seed(), seed);
    EXPECT_EQ((*data)->meta().Get(MetaTable::kTurns, "a").value(), "b");
    EXPECT_EQ(Read((*data)->kv(), chain[1]), Found::kRight);
  }
}

}  // namespace
}  // namespace kvgate::store
