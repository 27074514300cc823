// What opening tells of a damaged log.
#include "store/rocks_meta_database.h"

#include <gtest/gtest.h>

#include "store/rocks_meta_store.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store {
namespace {

namespace fs = std::filesystem;

constexpr int kRows = 1000;

// A database with that many rows of some 100 bytes in its log.
void Fill(const fs::path& directory) {
  auto meta = OpenRocksMetaStore({.directory = directory}).value();
  for (int i = 0; i < kRows; ++i) {
    ASSERT_TRUE(meta->Put(MetaTable::kTurns, std::to_string(1000 + i), std::string(100, 'v')));
  }
}

fs::path LogOf(const fs::path& directory) {
  for (const auto& log : FilesWith(directory, ".log")) {
    if (fs::file_size(log) > 0) return log;
  }
  return {};
}

TEST(MetaDatabase, AWholeLogLosesNothing) {
  const TemporaryDirectory temporary;
  Fill(temporary.path() / "meta");
  const auto database = MetaDatabase::Open({.directory = temporary.path() / "meta"}).value();
  EXPECT_EQ(database->losses().num_writes, 0u);
  EXPECT_EQ(database->losses().num_bytes, 0u);
  EXPECT_EQ(database->LatestSequence(), uint64_t{kRows});
}

TEST(MetaDatabase, ADamagedRecordCostsNothingThatWasWrittenLaterAndIsCounted) {
  const TemporaryDirectory temporary;
  const auto directory = temporary.path() / "meta";
  Fill(directory);
  // A damaged record takes with it what follows in the same 32 KiB of the log.
  FlipByte(LogOf(directory), 40'000);
  const auto database = MetaDatabase::Open({.directory = directory, .read_only = true}).value();
  EXPECT_GT(database->losses().num_bytes, 100u);
  EXPECT_GT(database->losses().num_writes, 100u);
  EXPECT_NE(database->losses().first.find("checksum mismatch"), std::string::npos);
  EXPECT_EQ(database->LatestSequence(), uint64_t{kRows});
}

TEST(MetaDatabase, WithoutCurrentItIsDamagedAndItsFilesStay) {
  const TemporaryDirectory temporary;
  const auto directory = temporary.path() / "meta";
  Fill(directory);
  fs::remove(directory / "CURRENT");
  const auto opened = MetaDatabase::Open({.directory = directory});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kDataLoss);
  EXPECT_FALSE(LogOf(directory).empty());
}

}  // namespace
}  // namespace kvgate::store
