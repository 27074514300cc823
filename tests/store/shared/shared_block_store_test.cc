// The store over a client that is a map in memory, with switches for what a server may do.
#include "store/shared/shared_block_store.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/shared/shared_block_format.h"
#include "tests/manual_clock.h"
#include "tests/store/shared/memory_client.h"

namespace kvgate::store::shared {
namespace {

using std::chrono::seconds;

// A block whose payload is its number.
struct Block {
  explicit Block(uint8_t number, size_t size = 64) : payload(size, std::byte{number}) {
    record.key = {.fingerprint = {.low = 5, .high = 6}, .hash = {.low = number, .high = 9}};
    record.digest.bytes[0] = number;
    record.shape_tag = 3;
    record.payload = payload;
  }
  kv::KvName name() const { return {.key = record.key, .digest = record.digest}; }
  std::vector<std::byte> payload;
  kv::KvRecord record{};
};

class SharedBlockStoreTest : public testing::Test {
 protected:
  Result<void> Get(SharedBlockStore& store, const Block& block) {
    out_.assign(block.payload.size(), std::byte{0});
    return store.Get({.key = block.record.key,
                      .digest = block.record.digest,
                      .shape_tag = block.record.shape_tag,
                      .payload = out_});
  }

  MemoryServer server_;
  MemoryClient client_{server_};
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  SharedBlockStore store_{{}, client_, *ring_};
  SharedBlockStore other_{{}, client_, *ring_};  // of another gateway
  std::vector<std::byte> out_;
};

TEST_F(SharedBlockStoreTest, WhatOneGatewayPutAnotherFindsAndReads) {
  const Block block(1);
  ASSERT_TRUE(store_.Put({&block.record, 1}));
  EXPECT_TRUE(store_.Contains(block.record.key));
  EXPECT_FALSE(other_.Contains(block.record.key));
  const std::vector<kv::KvName> names = {block.name(), Block(2).name()};
  ASSERT_TRUE(other_.LookUp(names, SteadyClock::now() + seconds(1)));
  EXPECT_TRUE(other_.Contains(block.record.key));
  EXPECT_FALSE(other_.Contains(Block(2).record.key));
  ASSERT_TRUE(Get(other_, block));
  EXPECT_EQ(out_, block.payload);
  const SharedBlockStats stats = other_.Stats();
  EXPECT_EQ(stats.num_looked_up, 2u);
  EXPECT_EQ(stats.num_found, 1u);
  EXPECT_EQ(stats.num_reads, 1u);
  EXPECT_EQ(stats.read_bytes, 64u);
  EXPECT_EQ(client_.said.back(), "EXPIRE");  // the hit renewed its time
}

TEST_F(SharedBlockStoreTest, WhatIsThereIsNotSentAgain) {
  const Block block(1);
  const Block next(2);
  ASSERT_TRUE(store_.Put({&block.record, 1}));
  const std::vector<kv::KvRecord> both = {block.record, next.record};
  ASSERT_TRUE(other_.Put(both));
  EXPECT_EQ(other_.Stats().num_present, 1u);
  EXPECT_EQ(other_.Stats().num_writes, 1u);
  EXPECT_TRUE(other_.Contains(block.record.key));
}

TEST_F(SharedBlockStoreTest, ManyBytesAreSentInParts) {
  std::vector<Block> blocks;
  for (uint8_t i = 1; i <= 5; ++i) blocks.emplace_back(i, size_t{3} << 20);
  std::vector<kv::KvRecord> records;
  for (const Block& block : blocks) {
    records.push_back(block.record);
    records.back().payload = block.payload;
  }
  ASSERT_TRUE(store_.Put(records));
  EXPECT_EQ(store_.Stats().num_writes, 5u);
  ASSERT_TRUE(Get(other_, blocks[4]));
  EXPECT_EQ(out_, blocks[4].payload);
}

TEST_F(SharedBlockStoreTest, ADamagedValueIsDeletedAndOneOfAnotherSecretStays) {
  const Block block(1);
  ASSERT_TRUE(store_.Put({&block.record, 1}));
  std::string& value = server_.values.begin()->second;
  value[value.size() / 2] ^= 1;
  EXPECT_EQ(Get(store_, block).error().code, ErrorCode::kDataLoss);
  EXPECT_TRUE(server_.values.empty());
  EXPECT_FALSE(store_.Contains(block.record.key));
  EXPECT_EQ(store_.Stats().num_dropped, 1u);

  const auto their_ring = Keyring::Generate();
  SharedBlockStore theirs({}, client_, *their_ring);
  ASSERT_TRUE(theirs.Put({&block.record, 1}));
  EXPECT_EQ(Get(store_, block).error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(server_.values.size(), 1u);
  EXPECT_EQ(store_.Stats().num_misses, 1u);
}

TEST_F(SharedBlockStoreTest, AServerThatIsDownHasNothingAndAFullOneTakesNothing) {
  const Block block(1);
  ASSERT_TRUE(store_.Put({&block.record, 1}));
  client_.is_down = true;
  EXPECT_TRUE(store_.is_paused());
  EXPECT_FALSE(store_.Contains(block.record.key));
  EXPECT_EQ(Get(store_, block).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(store_.Put({&block.record, 1}));
  const kv::KvName name = block.name();
  EXPECT_FALSE(store_.LookUp({&name, 1}, SteadyClock::now() + seconds(1)));
  client_.is_down = false;
  EXPECT_TRUE(store_.Contains(block.record.key));
  client_.is_full = true;
  const Block next(2);
  const Result<void> refused = store_.Put({&next.record, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  EXPECT_NE(refused.error().detail.find("OOM"), std::string::npos);
  EXPECT_FALSE(store_.Contains(next.record.key));
  EXPECT_EQ(store_.Stats().num_write_errors, 1u);
}

TEST_F(SharedBlockStoreTest, WhatIsKnownIsForgottenAfterAWhileOrAMiss) {
  const test::ManualClock clock;
  const Block block(1);
  ASSERT_TRUE(store_.Put({&block.record, 1}));
  test::ManualClock::Advance(seconds(601));
  EXPECT_FALSE(store_.Contains(block.record.key));
  ASSERT_TRUE(store_.Put({&block.record, 1}));
  server_.values.clear();  // the server evicted it
  EXPECT_EQ(Get(store_, block).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(store_.Contains(block.record.key));
}

TEST_F(SharedBlockStoreTest, WithoutATimeToLiveNothingExpires) {
  SharedBlockStore forever({.time_to_live = seconds(0)}, client_, *ring_);
  const Block block(1);
  ASSERT_TRUE(forever.Put({&block.record, 1}));
  ASSERT_TRUE(Get(forever, block));
  EXPECT_EQ(client_.said, (std::vector<std::string>{"EXISTS", "SET", "GET"}));
}

}  // namespace
}  // namespace kvgate::store::shared
