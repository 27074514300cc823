#include "store/pin_format.h"

#include <gtest/gtest.h>

#include "store/kv_format.h"

namespace kvgate::store {
namespace {

Pin SomePin() {
  return {.leaf = {{1, 2}, {3, 4}},
          .model = {5, 6},
          .name = "agent",
          .version = "2026-11",
          .salt = "tenant",
          .priority = 7,
          .expires_unix = 4'000'000'000,
          .created_us = 1'234'567,
          .tokens = {9, 8, -1, 1 << 30}};
}

TEST(PinFormat, APinComesBackAsItWas) {
  const Pin pin = SomePin();
  EXPECT_EQ(DecodePin(EncodeKvKey(pin.leaf), EncodePin(pin)).value(), pin);
  Pin bare{.leaf = pin.leaf, .model = {}, .name = {}, .version = {}, .salt = {}, .tokens = {}};
  EXPECT_EQ(DecodePin(EncodeKvKey(bare.leaf), EncodePin(bare)).value(), bare);
}

TEST(PinFormat, EveryFlippedBitAndEveryTruncationIsFoundOut) {
  const Pin pin = SomePin();
  const std::string key = EncodeKvKey(pin.leaf);
  std::string value = EncodePin(pin);
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodePin(key, value)) << bit;
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
  }
  for (size_t size = 0; size < value.size(); ++size) {
    EXPECT_FALSE(DecodePin(key, std::string_view(value).substr(0, size))) << size;
  }
  std::string other_key = key;
  other_key[31] ^= 1;
  EXPECT_FALSE(DecodePin(other_key, value)) << "a pin under another key";
}

}  // namespace
}  // namespace kvgate::store
