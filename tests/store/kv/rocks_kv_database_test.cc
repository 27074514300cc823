// Tests damage to the files of kv/: it may neither crash the process nor serve a wrong byte.
#include "store/kv/rocks_kv_database.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "store/kv/rocks_kv_store.h"
#include "tests/store/store_fixture.h"
#include "tests/wait_until.h"

namespace kvgate::store::kv {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

struct Damage {
  const char* name;
  const char* files;  // part of the names of the damaged files
  void (*hit)(const std::filesystem::path& file);
  bool whole;  // the whole database is set aside; else single records are dropped
};

void Truncate(const std::filesystem::path& file) {
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
}
void Empty(const std::filesystem::path& file) { std::filesystem::resize_file(file, 0); }
void Remove(const std::filesystem::path& file) { std::filesystem::remove(file); }
void FlipMiddle(const std::filesystem::path& file) {
  FlipByte(file, std::filesystem::file_size(file) / 2);
}
void FlipEarly(const std::filesystem::path& file) { FlipByte(file, 9); }

class KvDamage : public testing::TestWithParam<Damage> {};

TEST_P(KvDamage, ServesNoWrongByteAndGoesOn) {
  const Damage& damage = GetParam();
  const TempFolder temporary;
  const KvStoreOptions options{.directory = temporary.path() / "kv", .capacity_bytes = 64 * kMiB};
  std::vector<std::vector<Block>> chains;
  {
    auto store = RocksKvStore::Open(options).value();
    for (uint64_t chain = 0; chain < 6; ++chain) {
      chains.push_back(MakeChain(chain, 5, 100'000));
      ASSERT_TRUE(store->Put(Records(chains.back())));
      ASSERT_TRUE(store->Flush());
    }
  }
  const auto files = FilesWith(options.directory, damage.files);
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) damage.hit(file);

  auto opened = RocksKvStore::Open(options);
  ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
  auto store = std::move(opened).value();
  uint64_t num_right = 0;
  for (const auto& chain : chains) {
    for (const Block& block : chain) num_right += Read(*store, block) == Found::kRight ? 1 : 0;
  }
  EXPECT_EQ(!FilesWith(temporary.path(), "kv.damaged-").empty(), damage.whole);
  EXPECT_LT(num_right, 30u) << "the damage hit nothing";
  ASSERT_TRUE(store->Verify(nullptr).has_value());
  EXPECT_TRUE(test::WaitUntil([&] { return store->Put(Records(chains[0])).has_value(); },
                              "it takes a chain"));
  for (const Block& block : chains[0]) EXPECT_EQ(Read(*store, block), Found::kRight);
  EXPECT_TRUE(test::WaitUntil([&] { return store->Flush().has_value(); }, "it flushes"));
  store->CheckIntegrity();
}

INSTANTIATE_TEST_SUITE_P(Files, KvDamage,
                         testing::Values(Damage{"ManifestTruncated", "MANIFEST", Truncate, true},
                                         Damage{"ManifestFlipped", "MANIFEST", FlipEarly, true},
                                         Damage{"ManifestMissing", "MANIFEST", Remove, true},
                                         Damage{"CurrentEmpty", "CURRENT", Empty, true},
                                         Damage{"CurrentFlipped", "CURRENT", FlipEarly, true},
                                         Damage{"TableTruncated", ".sst", Truncate, true},
                                         Damage{"TableFlipped", ".sst", FlipEarly, true},
                                         Damage{"TableMissing", ".sst", Remove, true},
                                         Damage{"BlobTruncated", ".blob", Truncate, false},
                                         Damage{"BlobFlipped", ".blob", FlipMiddle, false},
                                         Damage{"BlobHeaderFlipped", ".blob", FlipEarly, false},
                                         Damage{"BlobMissing", ".blob", Remove, false}),
                         [](const testing::TestParamInfo<Damage>& hit) { return hit.param.name; });

TEST(KvDatabase, OnlyTheNewestSetAsideDirectoryIsKept) {
  const TempFolder temporary;
  const KvStoreOptions options{.directory = temporary.path() / "kv", .capacity_bytes = 64 * kMiB};
  for (int round = 0; round < 3; ++round) {
    { ASSERT_TRUE(RocksKvStore::Open(options).has_value()); }
    Empty(options.directory / "CURRENT");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_TRUE(RocksKvStore::Open(options).has_value());
  EXPECT_EQ(FilesWith(temporary.path(), "kv.damaged-").size(), 1u);
}

TEST(KvDatabase, AWriteIsAtomicAndItsDeletesComeFirst) {
  const TempFolder temporary;
  const KvDatabaseOptions options{.directory = temporary.path() / "kv",
                                  .capacity_bytes = 64 * kMiB};
  auto database = KvDatabase::Open(options).value();
  const Block block = MakeBlock(1, 0, 100);
  const KvRecord record = block.Record();
  const KvIndexEntry entry{.key = block.key,
                           .parent = {},
                           .digest = block.digest,
                           .group = 0,
                           .shape_tag = 7,
                           .payload_bytes = 100};
  ASSERT_TRUE(database->Write({.deletes = std::span(&block.key, 1),
                               .records = std::span(&record, 1),
                               .entries = std::span(&entry, 1)}));
  std::vector<KvKey> damaged;
  EXPECT_EQ(database->ReadIndex(damaged).value(), std::vector{entry});
  EXPECT_TRUE(damaged.empty());
  EXPECT_TRUE(database->ReadRecord(block.key, [&](std::string_view bytes) -> Result<void> {
    EXPECT_TRUE(ProveKvRecord(bytes, entry).has_value());
    return {};
  }));
}

}  // namespace
}  // namespace kvgate::store::kv
