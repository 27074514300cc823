#include "store/meta/pin_format.h"

#include <gtest/gtest.h>

#include "store/kv/kv_format.h"

namespace kvgate::store::meta {
namespace {

const Keyring& Ring() {
  static const auto ring = Keyring::Generate();
  return *ring;
}

Pin SomePin() {
  return {.leaf = {{1, 2}, {3, 4}},
          .model = {5, 6},
          .name = "agent",
          .version = "2026-11",
          .tenant = "tenant",
          .priority = 7,
          .expires_unix = 4'000'000'000,
          .created_us = 1'234'567,
          .tokens = {9, 8, -1, 1 << 30}};
}

TEST(PinFormat, APinComesBackAsItWas) {
  const Pin pin = SomePin();
  EXPECT_EQ(DecodePin(kv::EncodeKvKey(pin.leaf), EncodePin(pin, Ring()), Ring()).value(), pin);
  Pin bare{.leaf = pin.leaf, .model = {}, .name = {}, .version = {}, .tenant = {}, .tokens = {}};
  EXPECT_EQ(DecodePin(kv::EncodeKvKey(bare.leaf), EncodePin(bare, Ring()), Ring()).value(), bare);
}

TEST(PinFormat, EveryFlippedBitAndEveryTruncationIsFoundOut) {
  const Pin pin = SomePin();
  const std::string key = kv::EncodeKvKey(pin.leaf);
  std::string value = EncodePin(pin, Ring());
  for (size_t bit = 0; bit < value.size() * 8; ++bit) {
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodePin(key, value, Ring())) << bit;
    value[bit / 8] = static_cast<char>(value[bit / 8] ^ (1 << bit % 8));
  }
  for (size_t size = 0; size < value.size(); ++size) {
    EXPECT_FALSE(DecodePin(key, std::string_view(value).substr(0, size), Ring())) << size;
  }
  std::string other_key = key;
  other_key[31] ^= 1;
  EXPECT_FALSE(DecodePin(other_key, value, Ring())) << "a pin under another key";
}

}  // namespace
}  // namespace kvgate::store::meta
