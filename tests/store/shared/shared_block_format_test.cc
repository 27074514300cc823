#include "store/shared/shared_block_format.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace kvgate::store::shared {
namespace {

SharedBlock MakeBlock() {
  SharedBlock block{.fingerprint = {.low = 0x1122334455667788, .high = 0x99aabbccddeeff00},
                    .digest = {},
                    .group = 2,
                    .shape_tag = 77};
  for (size_t i = 0; i < block.digest.bytes.size(); ++i) {
    block.digest.bytes[i] = static_cast<uint8_t>(i);
  }
  return block;
}

std::vector<std::byte> Payload(size_t size) {
  std::mt19937 random(3);
  std::vector<std::byte> payload(size);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
  return payload;
}

TEST(SharedBlockFormatTest, KeysAreThoseOfTheFormat) {
  const SharedBlock block = MakeBlock();
  const std::string key = SharedBlockKey(block.fingerprint, block.digest, 0);
  EXPECT_EQ(key,
            "kvg:b:99aabbccddeeff001122334455667788:"
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
  EXPECT_EQ(SharedBlockKey(block.fingerprint, block.digest, 2), key + ":2");
}

TEST(SharedBlockFormatTest, AValueOpensUnderItsKeyAsItsBlockAlone) {
  const auto ring = Keyring::Generate();
  const SharedBlock block = MakeBlock();
  const std::vector<std::byte> payload = Payload(4096);
  const std::string value = SealSharedBlock(*ring, "key", block, payload);
  std::vector<std::byte> found(payload.size());
  ASSERT_TRUE(OpenSharedBlock(*ring, "key", value, block, found));
  EXPECT_EQ(found, payload);

  const auto code_of = [&](std::string_view key, const SharedBlock& wanted, size_t size) {
    std::vector<std::byte> out(size);
    const auto opened = OpenSharedBlock(*ring, key, value, wanted, out);
    return opened ? ErrorCode::kInternal : opened.error().code;
  };
  EXPECT_EQ(code_of("another key", block, payload.size()), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of("key", block, payload.size() - 1), ErrorCode::kNotFound);
  SharedBlock other = block;
  other.shape_tag = 78;
  EXPECT_EQ(code_of("key", other, payload.size()), ErrorCode::kNotFound);
  other = block;
  other.digest.bytes[31] ^= 1;
  EXPECT_EQ(code_of("key", other, payload.size()), ErrorCode::kNotFound);
  std::vector<std::byte> out(payload.size());
  EXPECT_EQ(OpenSharedBlock(*Keyring::Generate(), "key", value, block, out).error().code,
            ErrorCode::kPermissionDenied);
}

TEST(SharedBlockFormatTest, NoDamageOpens) {
  const auto ring = Keyring::Generate();
  const SharedBlock block = MakeBlock();
  const std::vector<std::byte> payload = Payload(300);
  const std::string value = SealSharedBlock(*ring, "key", block, payload);
  std::vector<std::byte> out(payload.size());
  for (size_t i = 0; i < value.size(); ++i) {
    std::string damaged = value;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(OpenSharedBlock(*ring, "key", damaged, block, out)) << i;
    EXPECT_FALSE(OpenSharedBlock(*ring, "key", value.substr(0, i), block, out)) << i;
  }
  EXPECT_FALSE(OpenSharedBlock(*ring, "key", value + "x", block, out));
}

}  // namespace
}  // namespace kvgate::store::shared
