#include "store/meta/rocks_meta_repair.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "store/meta/rocks_meta_store.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store::meta {
namespace {

namespace fs = std::filesystem;

constexpr int kRows = 4000;

std::string Key(int i) { return fmt::format("row {:06}", i); }
std::string Value(int i) { return fmt::format("value of row {:06} {}", i, std::string(60, 'x')); }

// A database whose tables have some hundred blocks.
class MetaRepair : public testing::Test {
 protected:
  void SetUp() override {
    for (int part = 0; part < 2; ++part) {
      auto meta = OpenRocksMetaStore({.directory = directory_}).value();
      std::vector<MetaWrite> writes;
      for (int i = part; i < kRows; i += 2) writes.push_back({.key = Key(i), .value = Value(i)});
      ASSERT_TRUE(meta->PutAll(MetaTable::kTurns, writes));
      ASSERT_TRUE(meta->Put(MetaTable::kPins, "pin", "kept"));
    }
    // Opening writes the logs into tables.
    ASSERT_TRUE(OpenRocksMetaStore({.directory = directory_}));
  }

  // Returns the number of rows found; fails on a wrong one.
  int CountRight() {
    auto meta = OpenRocksMetaStore({.directory = directory_});
    EXPECT_TRUE(meta.has_value()) << meta.error().ToString();
    if (!meta) return 0;
    std::set<std::string> right;
    for (int i = 0; i < kRows; ++i) {
      const auto value = (*meta)->Get(MetaTable::kTurns, Key(i));
      EXPECT_TRUE(value.has_value()) << value.error().ToString();
      if (value && *value) {
        EXPECT_EQ(**value, Value(i));
        right.insert(Key(i));
      }
    }
    return static_cast<int>(right.size());
  }

  // Returns the largest table.
  fs::path Table() {
    fs::path largest;
    for (const auto& table : FilesWith(directory_, ".sst")) {
      if (largest.empty() || fs::file_size(table) > fs::file_size(largest)) largest = table;
    }
    return largest;
  }

  TempFolder temporary_;
  const fs::path directory_ = temporary_.path() / "meta";
};

TEST_F(MetaRepair, AHealthyDatabaseIsLeftAlone) {
  const auto report = RepairMeta(directory_).value();
  EXPECT_TRUE(report.was_healthy);
  EXPECT_EQ(report.num_rows[static_cast<size_t>(MetaTable::kTurns)], uint64_t{kRows});
  EXPECT_TRUE(FilesWith(temporary_.path(), "damaged").empty());
}

TEST_F(MetaRepair, ADamagedBlockCostsItsRowsAndNoOthers) {
  FlipByte(Table(), 2000);
  FlipByte(Table(), fs::file_size(Table()) / 2);
  const auto report = RepairMeta(directory_);
  ASSERT_TRUE(report.has_value()) << report.error().ToString();
  EXPECT_FALSE(report->was_healthy);
  EXPECT_EQ(report->num_gaps, 2u);
  const int num_right = CountRight();
  EXPECT_LT(num_right, kRows);
  EXPECT_GT(num_right, kRows - 400) << "two blocks hold fewer rows than that";
  EXPECT_TRUE(fs::exists(report->set_aside));
  EXPECT_TRUE(RepairMeta(directory_).value().was_healthy);
}

TEST_F(MetaRepair, WithoutManifestOrCurrentTheTablesAreTakenUpAgain) {
  for (const char* lost : {"MANIFEST", "CURRENT"}) {
    for (const auto& file : FilesWith(directory_, lost)) fs::remove(file);
    ASSERT_FALSE(OpenRocksMetaStore({.directory = directory_}).has_value()) << lost;
    const auto report = RepairMeta(directory_);
    ASSERT_TRUE(report.has_value()) << report.error().ToString();
    EXPECT_EQ(CountRight(), kRows) << lost;
  }
}

TEST_F(MetaRepair, ATableThatCannotBeOpenedCostsOnlyItself) {
  fs::resize_file(Table(), fs::file_size(Table()) - 10);
  const auto report = RepairMeta(directory_);
  ASSERT_TRUE(report.has_value()) << report.error().ToString();
  EXPECT_EQ(report->num_tables, 1u);
  EXPECT_FALSE(report->complete());
  const int num_right = CountRight();
  EXPECT_GE(num_right, kRows / 2 - 1);
  EXPECT_LT(num_right, kRows);
  EXPECT_EQ(OpenRocksMetaStore({.directory = directory_}).value()->Get(MetaTable::kPins, "pin"),
            std::optional<std::string>("kept"));
}

// RocksDB's own repair asserts what log records mean, so it could not read these logs.
TEST_F(MetaRepair, LogsAreReadAroundWhatIsForeignOrDamaged) {
  {
    auto meta = OpenRocksMetaStore({.directory = directory_}).value();
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(meta->Put(MetaTable::kLedger, Key(i), Value(i)));
    ASSERT_TRUE(meta->Delete(MetaTable::kPins, "pin"));
  }
  fs::path log;
  for (const auto& path : FilesWith(directory_, ".log")) {
    if (fs::file_size(path) > 0) log = path;
  }
  FlipByte(log, fs::file_size(log) / 2);
  fs::copy_file(FilesWith(directory_, "MANIFEST").at(0), directory_ / "000001.log");
  fs::copy_file(FilesWith(directory_, "OPTIONS").at(0), directory_ / "999999.log");
  for (const auto& file : FilesWith(directory_, "CURRENT")) fs::remove(file);
  const auto report = RepairMeta(directory_);
  ASSERT_TRUE(report.has_value()) << report.error().ToString();
  EXPECT_GT(report->num_log_rows, 0u);
  EXPECT_GT(report->num_log_bytes, 0u);
  EXPECT_FALSE(report->complete());
  EXPECT_EQ(CountRight(), kRows);
  const auto meta = OpenRocksMetaStore({.directory = directory_}).value();
  EXPECT_EQ(meta->Get(MetaTable::kLedger, Key(0)), std::optional(Value(0)));
  EXPECT_EQ(meta->Get(MetaTable::kLedger, Key(999)), std::optional(Value(999)));
  EXPECT_EQ(meta->Get(MetaTable::kPins, "pin").value(), std::nullopt)
      << "the log's rows are newer than those of tables";
}

TEST_F(MetaRepair, ATableInThePlaceOfAnotherCostsThatOneAndIsCounted) {
  const fs::path table = Table();
  fs::path smallest = table;
  for (const auto& other : FilesWith(directory_, ".sst")) {
    if (fs::file_size(other) < fs::file_size(smallest)) smallest = other;
  }
  ASSERT_NE(table, smallest);
  fs::copy_file(table, smallest, fs::copy_options::overwrite_existing);
  const auto report = RepairMeta(directory_);
  ASSERT_TRUE(report.has_value()) << report.error().ToString();
  EXPECT_EQ(report->num_tables, 1u);
  EXPECT_GE(CountRight(), kRows / 2);
}

TEST_F(MetaRepair, ARepairCutOffBetweenItsRenamesIsFinished) {
  fs::rename(directory_, temporary_.path() / "meta.repaired");
  FinishMetaRepair(directory_);
  EXPECT_EQ(CountRight(), kRows);
}

}  // namespace
}  // namespace kvgate::store::meta
