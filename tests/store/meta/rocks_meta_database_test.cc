// Tests the losses that opening reports for a damaged log.
#include "store/meta/rocks_meta_database.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <optional>
#include <string>
#include <vector>

#include "store/meta/rocks_meta_repair.h"
#include "store/meta/rocks_meta_store.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store::meta {
namespace {

namespace fs = std::filesystem;

constexpr int kRows = 1000;

// Makes a database with kRows rows of some 100 bytes in its log.
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
  const TempFolder temporary;
  Fill(temporary.path() / "meta");
  const auto database = MetaDatabase::Open({.directory = temporary.path() / "meta"}).value();
  EXPECT_EQ(database->losses().num_writes, 0u);
  EXPECT_EQ(database->losses().num_bytes, 0u);
  EXPECT_EQ(database->LatestSequence(), uint64_t{kRows});
}

TEST(MetaDatabase, ADamagedRecordCostsNothingThatWasWrittenLaterAndIsCounted) {
  const TempFolder temporary;
  const auto directory = temporary.path() / "meta";
  Fill(directory);
  // A damaged record loses everything that follows it in the same 32 KiB block of the log.
  FlipByte(LogOf(directory), 40'000);
  const auto database = MetaDatabase::Open({.directory = directory, .read_only = true}).value();
  EXPECT_GT(database->losses().num_bytes, 100u);
  EXPECT_GT(database->losses().num_writes, 100u);
  EXPECT_NE(database->losses().first.find("checksum mismatch"), std::string::npos);
  EXPECT_EQ(database->LatestSequence(), uint64_t{kRows});
}

// Writes a run of zeros, which RocksDB takes for preallocated space up to the end of the 32 KiB
// block.
void ZeroFront(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file << std::string(200, '\0');
}

TEST(MetaDatabase, RowsMissingAtTheFrontOfALogAreCounted) {
  const TempFolder temporary;
  const auto directory = temporary.path() / "meta";
  for (const bool is_flushed_before : {false, true}) {
    Fill(directory);
    if (is_flushed_before) {
      auto meta = OpenRocksMetaStore({.directory = directory}).value();
      ASSERT_TRUE(meta->Compact(MetaTable::kTurns));
      for (int i = 0; i < kRows; ++i) {
        ASSERT_TRUE(meta->Put(MetaTable::kPins, std::to_string(i), std::string(100, 'v')));
      }
    }
    ZeroFront(LogOf(directory));
    const auto database =
        MetaDatabase::Open(
            {.directory = directory, .read_only = true, .acked_path = AckedPath(directory)})
            .value();
    EXPECT_GT(database->losses().num_writes, 100u);
    EXPECT_EQ(OpenRocksMetaStore({.directory = directory}).value()->Stats().num_lost,
              database->losses().num_writes);
  }
}

TEST(MetaDatabase, AManifestThatLostItsEndIsDamageAndRepairFindsAllRows) {
  for (const int num_cut : {1, 20, 60}) {
    const TempFolder temporary;
    const auto directory = temporary.path() / "meta";
    Fill(directory);
    ASSERT_TRUE(OpenRocksMetaStore({.directory = directory}).value()->Compact(MetaTable::kTurns));
    const fs::path manifest = FilesWith(directory, "MANIFEST").at(0);
    fs::resize_file(manifest, fs::file_size(manifest) - static_cast<uint64_t>(num_cut));
    const auto opened = OpenRocksMetaStore({.directory = directory});
    ASSERT_FALSE(opened.has_value()) << num_cut;
    EXPECT_EQ(opened.error().code, ErrorCode::kDataLoss);
    ASSERT_TRUE(RepairMeta(directory)) << num_cut;
    const auto meta = OpenRocksMetaStore({.directory = directory}).value();
    for (int i = 0; i < kRows; ++i) {
      ASSERT_TRUE(meta->Get(MetaTable::kTurns, std::to_string(1000 + i)).value()) << i;
    }
  }
}

// Reproduces the files of a process that was killed right after a flush.
TEST(MetaDatabase, AFlushThatWasNotNotedIsNoLoss) {
  const TempFolder temporary;
  const auto directory = temporary.path() / "meta";
  const MetaDatabase::Options options{.directory = directory, .acked_path = AckedPath(directory)};
  std::optional<file::AckedState> noted;
  {
    const auto database = MetaDatabase::Open(options).value();
    noted = file::AckedSequence::Read(AckedPath(directory));
    rocksdb::ColumnFamilyHandle* const pins = database->Family(MetaTable::kPins);
    for (int i = 0; i < kRows; ++i) {
      if (i == kRows / 2) {
        ASSERT_TRUE(database->db().Flush({}, pins).ok());
      }
      ASSERT_TRUE(database->db().Put({}, pins, std::to_string(i), "v").ok());
      database->Acknowledge();
    }
  }
  ASSERT_TRUE(noted.has_value());
  ASSERT_NE(file::AckedSequence::Read(AckedPath(directory))->first_logged, noted->first_logged);
  noted->sequence = kRows;
  file::AckedSequence(AckedPath(directory)).Restart(*noted);
  EXPECT_EQ(MetaDatabase::Open(options).value()->losses().num_writes, 0u);
}

// Covers every kind of record that RocksDB knows, and others, because it asserts what some of them
// mean.
TEST(MetaDatabase, RecordsThatAreNotThisStoresAreNoEndOfTheProcess) {
  const rocksdb::WriteBatch own = [] {
    rocksdb::WriteBatch batch;
    EXPECT_TRUE(batch.Put("key", "value").ok());
    return batch;
  }();
  std::vector<std::string> records{own.Data()};
  for (int tag = 0; tag < 256; ++tag) {
    for (const char* rest : {"", "\x01k\x01v", "\x01\x01k\x01v", "\x7f", "\x03xid\x04time"}) {
      std::string record = own.Data().substr(0, 8) + std::string("\x01\0\0\0", 4);
      record += static_cast<char>(tag);
      records.push_back(record + rest);
    }
  }
  EXPECT_GT(MetaDatabase::KeepOwnBatches(records), 0u);
  EXPECT_GE(records.size(), 1u);
  EXPECT_LT(records.size(), 30u);
  EXPECT_EQ(records[0], own.Data());
}

TEST(MetaDatabase, WithoutCurrentItIsDamagedAndItsFilesStay) {
  const TempFolder temporary;
  const auto directory = temporary.path() / "meta";
  Fill(directory);
  fs::remove(directory / "CURRENT");
  const auto opened = MetaDatabase::Open({.directory = directory});
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kDataLoss);
  EXPECT_FALSE(LogOf(directory).empty());
}

}  // namespace
}  // namespace kvgate::store::meta
