#include "store/rocks_data_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <random>
#include <string>

#include "store/file/directory_lock.h"
#include "tests/store/store_fixture.h"
#include "tests/wait_until.h"

namespace kvgate::store {

using meta::MetaTable;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr const char* kChild = "DataDirectoryChild.WritesUntilItIsKilled";

StoreOptions Options(const std::filesystem::path& directory) {
  return {.directory = directory,
          .kv_bytes_max = 16 * kMiB,
          .flush_interval = std::chrono::milliseconds(50)};
}

unsigned ModeOf(const std::filesystem::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_mode & 0777;
}

// Puts chains, flushes some, and notes in DIR/flushed those that the store has promised to keep.
TEST(DataDirectoryChild, WritesUntilItIsKilled) {
  const char* path = std::getenv(kChildVariable);
  if (path == nullptr) GTEST_SKIP() << "runs as a child of the crash tests only";
  auto directory = DataDirectory::Open(Options(path));
  if (!directory) ::_exit(3);
  std::ofstream notes(std::filesystem::path(path) / "flushed", std::ios::app);
  (void)(*directory)->PublishAddress({.url = "http://127.0.0.1:4711"});
  std::mt19937 random(static_cast<unsigned>(::getpid()));
  for (uint64_t round = 0;; ++round) {
    const uint64_t chain = uint64_t(::getpid()) * 100'000 + round;
    auto blocks = MakeChain(chain, 1 + random() % 8, 150'000);
    if (!(*directory)->kv().Put(Records(blocks))) ::_exit(4);
    if (random() % 3 == 0) {
      if (!(*directory)->kv().Flush()) ::_exit(5);
      notes << chain << ' ' << blocks.size() << std::endl;
      if (!(*directory)->meta().Put(MetaTable::kTurns, std::to_string(chain), "turn")) ::_exit(6);
      notes << "turn " << chain << std::endl;
    }
    if (random() % 16 == 0) (void)(*directory)->kv().RemovePrefix(blocks.back().key.hash);
  }
}

struct Notes {
  std::vector<std::pair<uint64_t, uint32_t>> chains;
  std::vector<std::string> turns;
};

Notes ReadNotes(const std::filesystem::path& directory) {
  Notes notes;
  std::ifstream file(directory / "flushed");
  std::string line;
  while (std::getline(file, line) && !file.eof()) {
    if (line.starts_with("turn ")) {
      notes.turns.push_back(line.substr(5));
    } else {
      const size_t space = line.find(' ');
      notes.chains.emplace_back(std::stoull(line.substr(0, space)),
                                static_cast<uint32_t>(std::stoul(line.substr(space + 1))));
    }
  }
  return notes;
}

TEST(DataDirectory, SurvivesKillAtAnyMoment) {
  const TempFolder temporary;
  std::mt19937 random(5);
  uint64_t num_checked = 0;
  uint64_t num_found = 0;
  for (int round = 0; round < 12; ++round) {
    {
      ChildProcess child(kChild, temporary.path());
      ASSERT_TRUE(
          test::WaitUntil([&] { return DataDirectory::FindServer(temporary.path()).has_value(); },
                          "the child holds the directory"))
          << "round " << round;
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 500));
      child.Kill();
    }
    auto directory = DataDirectory::Open(Options(temporary.path()));
    ASSERT_TRUE(directory.has_value()) << directory.error().ToString();
    EXPECT_TRUE(FilesWith(temporary.path(), "damaged").empty());
    const auto report = (*directory)->kv().Verify(nullptr);
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->num_dropped, 0u);
    EXPECT_EQ(report->num_orphans, 0u);
    num_checked += report->num_checked;
    const Notes notes = ReadNotes(temporary.path());
    for (const std::string& turn : notes.turns) {
      EXPECT_EQ((*directory)->meta().Get(MetaTable::kTurns, turn).value(), "turn");
    }
    // A flushed chain may only be missing by eviction or RemovePrefix, so the newest must be there.
    for (const auto& [chain, num_blocks] : notes.chains) {
      for (const Block& block : MakeChain(chain, num_blocks, 150'000)) {
        num_found += Read((*directory)->kv(), block) == Found::kRight ? 1 : 0;
      }
    }
  }
  EXPECT_GT(num_checked, 100u);
  EXPECT_GT(num_found, 50u);
}

TEST(DataDirectory, WhatWasFlushedBeforeAKillIsFoundAgain) {
  const TempFolder temporary;
  for (int round = 0; round < 3; ++round) {
    ChildProcess child(kChild, temporary.path());
    ASSERT_TRUE(test::WaitUntil([&] { return !ReadNotes(temporary.path()).chains.empty(); },
                                "the child flushed a chain"));
    child.Kill();
    const Notes notes = ReadNotes(temporary.path());
    auto directory = DataDirectory::Open(Options(temporary.path()));
    ASSERT_TRUE(directory.has_value());
    // 16 MiB hold more than the ten newest flushed chains, of which one may have been removed.
    size_t num_missing = 0;
    const size_t first = notes.chains.size() - std::min<size_t>(notes.chains.size(), 4);
    for (size_t i = first; i < notes.chains.size(); ++i) {
      const auto chain = MakeChain(notes.chains[i].first, notes.chains[i].second, 150'000);
      const Found found = Read((*directory)->kv(), chain.back());
      EXPECT_NE(found, Found::kDamaged);
      num_missing += found == Found::kMissing ? 1 : 0;
    }
    EXPECT_LE(num_missing, 1u);
    std::filesystem::remove(temporary.path() / "flushed");
  }
}

TEST(DataDirectory, TheSeedIsRandomAndMadeOnce) {
  const TempFolder one;
  const TempFolder two;
  const uint64_t seed = DataDirectory::Open(Options(one.path())).value()->hash_seed();
  EXPECT_EQ(DataDirectory::Open(Options(one.path())).value()->hash_seed(), seed);
  EXPECT_NE(DataDirectory::Open(Options(two.path())).value()->hash_seed(), seed);
}

TEST(DataDirectory, OnlyItsOwnerMayReadWhatItMakes) {
  const TempFolder temporary;
  const auto path = temporary.path() / "deep" / "data";
  auto directory = DataDirectory::Open(Options(path)).value();
  ASSERT_TRUE(directory->kv().Put(Records(MakeChain(1, 3, 1000))));
  ASSERT_TRUE(directory->kv().Flush());
  ASSERT_TRUE(directory->PublishAddress({.url = "https://[::1]:1", .certificate_sha256 = "ab"}));
  EXPECT_EQ(ModeOf(path), 0700u);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    EXPECT_EQ(ModeOf(entry.path()) & 0077, 0u) << entry.path();
  }
}

TEST(DataDirectory, AnOpenDirectoryIsClosedToOthersUnlessItHoldsTheirFiles) {
  const TempFolder temp;
  const auto mine = temp.path() / "mine";
  std::filesystem::create_directory(mine);
  for (const mode_t mode : {0755, 0777}) {  // empty at first, then a data directory
    ASSERT_EQ(::chmod(mine.c_str(), mode), 0);
    ASSERT_TRUE(DataDirectory::Open(Options(mine)));
    EXPECT_EQ(ModeOf(mine), 0700u);
  }
  const auto shared = temp.path() / "shared";
  std::filesystem::create_directory(shared);
  std::ofstream(shared / "letter.txt") << "not ours";
  ASSERT_EQ(::chmod(shared.c_str(), 0755), 0);
  const auto refused = DataDirectory::Open(Options(shared));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(refused.error().detail.find("0755"), std::string::npos) << refused.error().detail;
  EXPECT_EQ(ModeOf(shared), 0755u);
}

TEST(DataDirectory, ASecondHolderIsRefusedAndToldWhoAndWhere) {
  const TempFolder temporary;
  ChildProcess child(kChild, temporary.path());
  ASSERT_TRUE(
      test::WaitUntil([&] { return DataDirectory::FindServer(temporary.path()).has_value(); },
                      "the child holds the directory"));
  EXPECT_EQ(DataDirectory::FindServer(temporary.path()).value().url, "http://127.0.0.1:4711");
  const auto second = DataDirectory::Open(Options(temporary.path()));
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().detail.find(std::to_string(child.pid())), std::string::npos);
  EXPECT_NE(second.error().detail.find("http://127.0.0.1:4711"), std::string::npos);
  child.Kill();
  EXPECT_EQ(DataDirectory::FindServer(temporary.path()).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(DataDirectory::Open(Options(temporary.path())).has_value());
}

TEST(DataDirectory, ReadOnlyOpensBesideItsHolderAndNeverCreates) {
  const TempFolder temporary;
  StoreOptions look = Options(temporary.path());
  look.read_only = true;
  EXPECT_EQ(DataDirectory::Open(look).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(temporary.path()));
  auto holder = DataDirectory::Open(Options(temporary.path())).value();
  const auto chain = MakeChain(1, 2, 1000);
  ASSERT_TRUE(holder->kv().Put(Records(chain)));
  ASSERT_TRUE(holder->kv().Flush());
  auto reader = DataDirectory::Open(look);
  ASSERT_TRUE(reader.has_value()) << reader.error().ToString();
  EXPECT_EQ((*reader)->hash_seed(), holder->hash_seed());
  EXPECT_EQ(Read((*reader)->kv(), chain[1]), Found::kRight);
  EXPECT_EQ((*reader)->PublishAddress({.url = "x"}).error().code, ErrorCode::kUnsupported);
}

TEST(DataDirectory, ANewerFormatIsRefusedByItsNumber) {
  const TempFolder temporary;
  std::string newer;
  {
    auto directory = DataDirectory::Open(Options(temporary.path())).value();
    const auto today = directory->meta().Get(MetaTable::kDirectory, "format_version");
    ASSERT_TRUE(today);
    newer = std::to_string(std::stoi(today->value()) + 1);
    ASSERT_TRUE(directory->meta().Put(MetaTable::kDirectory, "format_version", newer));
  }
  const auto opened = DataDirectory::Open(Options(temporary.path()));
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(opened.error().detail.find("format " + newer), std::string::npos);
}

TEST(DataDirectory, ADirectoryOfFormatTwoIsTakenOverAsItIs) {
  const TempFolder temporary;
  const auto chain = MakeChain(1, 2, 1000);
  {
    auto directory = DataDirectory::Open(Options(temporary.path())).value();
    ASSERT_TRUE(directory->kv().Put(Records(chain)));
    ASSERT_TRUE(directory->kv().Flush());
    ASSERT_TRUE(directory->meta().Put(MetaTable::kDirectory, "format_version", "2"));
  }
  auto directory = DataDirectory::Open(Options(temporary.path())).value();
  EXPECT_EQ(*directory->meta().Get(MetaTable::kDirectory, "format_version"), "7");
  EXPECT_EQ(Read(directory->kv(), chain[1]), Found::kRight);
}

TEST(DataDirectory, ADamagedMetaLeavesKvServingUntilItIsRepaired) {
  const TempFolder temporary;
  const auto chain = MakeChain(1, 3, 1000);
  {
    auto directory = DataDirectory::Open(Options(temporary.path())).value();
    ASSERT_TRUE(directory->kv().Put(Records(chain)));
    ASSERT_TRUE(directory->meta().Put(MetaTable::kTurns, "a", "turn"));
  }
  for (const auto& file : FilesWith(temporary.path() / "meta", "MANIFEST")) {
    std::filesystem::resize_file(file, 20);
  }
  {
    auto directory = DataDirectory::Open(Options(temporary.path()));
    ASSERT_TRUE(directory.has_value()) << directory.error().ToString();
    ASSERT_NE((*directory)->meta_error(), nullptr);
    EXPECT_EQ(Read((*directory)->kv(), chain[2]), Found::kRight) << "the seed is the same";
    EXPECT_EQ((*directory)->meta().Put(MetaTable::kTurns, "b", "turn").error().code,
              ErrorCode::kUnavailable);
    EXPECT_EQ(DataDirectory::Repair(Options(temporary.path())).error().code,
              ErrorCode::kUnavailable)
        << "somebody holds it";
  }
  const auto report = DataDirectory::Repair(Options(temporary.path()));
  ASSERT_TRUE(report.has_value()) << report.error().ToString();
  EXPECT_FALSE(report->meta.was_healthy);
  EXPECT_EQ(report->kv.num_checked, 3u);
  auto directory = DataDirectory::Open(Options(temporary.path())).value();
  EXPECT_EQ(directory->meta_error(), nullptr);
  EXPECT_EQ(directory->meta().Get(MetaTable::kTurns, "a").value(), "turn");
}

TEST(DataDirectory, TwoStartsThatCrashedSetKvAsideAndFourKeepMetaShut) {
  const TempFolder temporary;
  { ASSERT_TRUE(DataDirectory::Open(Options(temporary.path()))); }
  std::ofstream(temporary.path() / "kv.opening") << "xx";
  {
    auto directory = DataDirectory::Open(Options(temporary.path())).value();
    EXPECT_EQ(FilesWith(temporary.path(), "kv.damaged-").size(), 1u);
    EXPECT_EQ(directory->meta_error(), nullptr);
  }
  std::ofstream(temporary.path() / "meta.opening") << "xxxx";
  { EXPECT_NE(DataDirectory::Open(Options(temporary.path())).value()->meta_error(), nullptr); }
  ASSERT_TRUE(DataDirectory::Repair(Options(temporary.path())));
  EXPECT_EQ(DataDirectory::Open(Options(temporary.path())).value()->meta_error(), nullptr);
}

TEST(DataDirectory, AFileInItsPlaceIsRefusedWithItsPath) {
  const TempFolder temporary;
  const auto path = temporary.path() / "data";
  std::ofstream(path) << "not a directory";
  const auto opened = DataDirectory::Open(Options(path));
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kIo);
  EXPECT_NE(opened.error().detail.find(path.string()), std::string::npos);
}

}  // namespace
}  // namespace kvgate::store
