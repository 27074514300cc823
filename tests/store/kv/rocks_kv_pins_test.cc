#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "store/kv/rocks_kv_store.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store::kv {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::unique_ptr<RocksKvStore> OpenStore(const std::filesystem::path& directory) {
  auto opened = RocksKvStore::Open({.directory = directory / "kv", .capacity_bytes = 32 * kMiB});
  EXPECT_TRUE(opened.has_value()) << opened.error().ToString();
  return std::move(opened).value();
}

TEST(RocksKvPins, AtMostHalfOfTheCapCanBePinned) {
  const TempFolder directory;
  auto store = OpenStore(directory.path());
  uint64_t pinned = 0;
  Result<void> last;
  for (uint64_t chain = 1; chain <= 24 && last; ++chain) {
    const auto blocks = MakeChain(chain, 4, 256 * 1024);
    ASSERT_TRUE(store->Put(Records(blocks)));
    last = store->Pin(blocks.back().key, 0);
    if (last) ++pinned;
  }
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(pinned, 15u);
  EXPECT_LE(store->Stats().pinned_bytes, 16 * kMiB);
  EXPECT_GT(store->Stats().pinned_bytes, 15 * kMiB);
  store->Unpin(MakeBlock(1, 3, 0).key);
  EXPECT_TRUE(store->Pin(MakeBlock(16, 3, 0).key, 0)) << "there is room again";
  store->CheckIntegrity();
}

TEST(RocksKvPins, AWantedPinHoldsFromTheMomentItsBlockIsPut) {
  const TempFolder directory;
  auto store = OpenStore(directory.path());
  const auto chain = MakeChain(1, 4, 1000);
  ASSERT_TRUE(store->Pin(chain.back().key, 0));
  EXPECT_EQ(store->Stats().pinned_bytes, 0u);
  ASSERT_TRUE(store->Put(Records(chain)));
  EXPECT_GT(store->Stats().pinned_bytes, 4000u);
  EXPECT_EQ(store->RemovePrefix(chain.back().key.hash).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store->RemoveAll().error().code, ErrorCode::kInvalidArgument);
  store->Unpin(chain.back().key);
  EXPECT_EQ(store->RemovePrefix(chain.back().key.hash).value(), 4u);
}

TEST(RocksKvPins, RemovingWhatGoesOnFromAPinnedBlockStopsAtIt) {
  const TempFolder directory;
  auto store = OpenStore(directory.path());
  const auto chain = MakeChain(1, 6, 1000);
  ASSERT_TRUE(store->Put(Records(chain)));
  ASSERT_TRUE(store->Pin(chain[2].key, 0));
  EXPECT_EQ(store->RemovePrefix(chain.back().key.hash).value(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(Read(*store, chain[i]), Found::kRight);
  store->CheckIntegrity();
}

TEST(RocksKvPins, APinnedBlockThatIsDamagedIsDroppedLikeAnyOther) {
  const TempFolder directory;
  const auto chain = MakeChain(1, 2, 4000);
  {
    auto store = OpenStore(directory.path());
    ASSERT_TRUE(store->Put(Records(chain)));
    ASSERT_TRUE(store->Flush());
  }
  const auto files = FilesWith(directory.path() / "kv", ".blob");
  ASSERT_EQ(files.size(), 1u);
  FlipByte(files[0], std::filesystem::file_size(files[0]) / 2 + 500);
  auto store = OpenStore(directory.path());
  ASSERT_TRUE(store->Pin(chain.back().key, 0));
  EXPECT_GT(store->Verify(nullptr).value().num_dropped, 0u);
  EXPECT_EQ(store->Stats().pinned_bytes, 0u);
  store->CheckIntegrity();
  ASSERT_TRUE(store->Put(Records(chain)));
  EXPECT_GT(store->Stats().pinned_bytes, 8000u) << "put again, it is pinned again";
}

TEST(RocksKvPins, AStoredPrefixIsReadBackWithItsTokens) {
  const TempFolder directory;
  auto store = OpenStore(directory.path());
  const auto chain = MakeChain(1, 3, 500);
  std::vector<std::vector<TokenId>> tokens;
  std::vector<KvRecord> records = Records(chain);
  for (TokenId i = 0; i < 3; ++i) tokens.push_back({i, i + 1, i + 2});
  for (size_t i = 0; i < 3; ++i) records[i].tokens = tokens[i];
  ASSERT_TRUE(store->Put(records));
  const auto keys = store->Chain(chain.back().key.hash);
  ASSERT_TRUE(keys);
  ASSERT_EQ(keys->size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*keys)[i], chain[i].key);
    const auto block = store->Read((*keys)[i]);
    ASSERT_TRUE(block);
    EXPECT_EQ(block->tokens, tokens[i]);
    EXPECT_EQ(block->payload, chain[i].payload);
    EXPECT_EQ(block->digest, chain[i].digest);
  }
  EXPECT_EQ(store->Chain(BlockHash{1, 1}).error().code, ErrorCode::kNotFound);
  const std::vector<TokenId> too_many(kKvTokensMax + 1);
  records[0].tokens = too_many;
  EXPECT_EQ(store->Put(std::span(records).first(1)).error().code, ErrorCode::kInvalidArgument);
}

TEST(RocksKvPins, RandomPinsUnderEvictionAreNeverLost) {
  const TempFolder directory;
  auto store = OpenStore(directory.path());
  std::mt19937 random(3);
  std::map<uint64_t, std::vector<Block>> pinned;
  for (uint64_t chain = 1; chain < 400; ++chain) {
    const auto blocks = MakeChain(chain, 1 + random() % 4, 128 * 1024);
    ASSERT_TRUE(store->Put(Records(blocks)));
    if (random() % 8 == 0 && store->Pin(blocks.back().key, 0)) pinned.emplace(chain, blocks);
    if (random() % 16 == 0 && !pinned.empty()) {
      const auto victim = std::next(pinned.begin(), random() % pinned.size());
      store->Unpin(victim->second.back().key);
      pinned.erase(victim);
    }
    if (chain % 40 == 0) store->CheckIntegrity();
  }
  EXPECT_GT(store->Stats().num_evicted, 100u);
  ASSERT_GT(pinned.size(), 5u);
  for (const auto& [chain, blocks] : pinned) {
    for (const Block& block : blocks) EXPECT_EQ(Read(*store, block), Found::kRight) << chain;
  }
}

}  // namespace
}  // namespace kvgate::store::kv
