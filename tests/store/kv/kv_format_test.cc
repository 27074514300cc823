#include "store/kv/kv_format.h"

#include <gtest/gtest.h>

#include "tests/store/store_fixture.h"

namespace kvgate::store::kv {
namespace {

KvIndexEntry EntryFor(const Block& block) {
  return {.key = block.key,
          .parent = block.parent,
          .depth = block.depth,
          .digest = block.digest,
          .group = 0,
          .shape_tag = 7,
          .payload_bytes = block.payload.size(),
          .last_used_us = 123456789};
}

TEST(KvFormat, KeysComeBackAndSortAsHexDoes) {
  const KvKey small{{.low = 9, .high = 1}, {.low = 255, .high = 0}};
  const KvKey large{{.low = 9, .high = 1}, {.low = 0, .high = 1}};
  EXPECT_EQ(DecodeKvKey(EncodeKvKey(small)).value(), small);
  EXPECT_LT(EncodeKvKey(small), EncodeKvKey(large));
  EXPECT_EQ(DecodeKvKey("short").error().code, ErrorCode::kDataLoss);
}

TEST(KvFormat, ARecordIsProvedAndItsPayloadComesBack) {
  const Block block = MakeBlock(1, 2, 1000);
  const std::vector<TokenId> tokens = {5, -7, 1 << 30};
  KvRecord record = block.Record();
  record.tokens = tokens;
  std::string bytes;
  EncodeKvRecord(record, bytes);
  ASSERT_EQ(bytes.size(), kKvHeaderBytes + 12 + 1000);
  const auto proved = ProveKvRecord(bytes, EntryFor(block));
  ASSERT_TRUE(proved.has_value());
  EXPECT_TRUE(std::ranges::equal(proved->payload, block.payload));
  EXPECT_EQ(DecodeTokens(proved->token_bytes), tokens);
}

TEST(KvFormat, EveryFlippedBitOfARecordIsFoundOut) {
  const Block block = MakeBlock(1, 2, 200);
  const std::vector<TokenId> tokens = {1, 2};
  KvRecord record = block.Record();
  record.tokens = tokens;
  std::string bytes;
  EncodeKvRecord(record, bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(ProveKvRecord(bytes, EntryFor(block)).has_value()) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(KvFormat, EveryTruncationOfARecordIsFoundOut) {
  const Block block = MakeBlock(1, 0, 64);
  std::string bytes;
  EncodeKvRecord(block.Record(), bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ProveKvRecord(std::string_view(bytes).substr(0, size), EntryFor(block)));
  }
}

TEST(KvFormat, ARecordOfAnotherPrefixIsNotProved) {
  const Block block = MakeBlock(1, 2, 64);
  std::string bytes;
  EncodeKvRecord(block.Record(), bytes);
  KvIndexEntry other = EntryFor(block);
  other.digest.bytes[31] ^= 1;
  EXPECT_FALSE(ProveKvRecord(bytes, other));
  other = EntryFor(block);
  other.parent.low ^= 1;
  EXPECT_FALSE(ProveKvRecord(bytes, other));
  other = EntryFor(block);
  other.shape_tag ^= 1;
  EXPECT_FALSE(ProveKvRecord(bytes, other));
  other = EntryFor(block);
  other.key.fingerprint.high ^= 1;
  EXPECT_FALSE(ProveKvRecord(bytes, other));
}

TEST(KvFormat, EveryFlippedBitOfAnIndexEntryIsFoundOut) {
  const KvIndexEntry entry = EntryFor(MakeBlock(5, 3, 64));
  const std::string key = EncodeKvKey(entry.key);
  std::string value = EncodeKvIndexEntry(entry);
  ASSERT_EQ(DecodeKvIndexEntry(key, value).value(), entry);
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeKvIndexEntry(key, value)) << bit;
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
  }
  std::string other_key = key;
  other_key[5] ^= 1;
  EXPECT_FALSE(DecodeKvIndexEntry(other_key, value)) << "a value under another key";
}

}  // namespace
}  // namespace kvgate::store::kv
