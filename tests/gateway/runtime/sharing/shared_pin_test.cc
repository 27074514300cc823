#include "gateway/runtime/sharing/shared_pin.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::runtime::sharing {
namespace {

store::meta::Pin SomePin() {
  store::meta::Pin pin;
  pin.leaf.fingerprint = {.low = 3, .high = 4};
  pin.model = {.low = 1, .high = 2};
  pin.name = "agent";
  pin.version = "7";
  pin.priority = -3;
  pin.expires_unix = 1'900'000'000;
  pin.created_us = 1'800'000'000'000'000;
  pin.tokens = {0, 127, 128, 151'935};
  return pin;
}

TEST(SharedPin, WhatIsEncodedIsDecoded) {
  const std::string prefix(32, 'p');
  const auto shared = DecodeSharedPin(EncodeSharedPin(prefix, SomePin()));
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->pin, SomePin());
  EXPECT_EQ(shared->prefix, prefix);
  EXPECT_EQ(shared->changed_us, SomePin().created_us);
  EXPECT_FALSE(shared->is_removed);
  const auto removed =
      DecodeSharedPin(EncodeSharedPin({.prefix = prefix, .tenant = "t", .removed_us = 9}));
  ASSERT_TRUE(removed);
  EXPECT_TRUE(removed->is_removed);
  EXPECT_EQ(removed->changed_us, 9);
  EXPECT_EQ(removed->prefix, prefix);
}

TEST(SharedPin, WhatIsCutOrHasMoreIsDamagedAndANewerVersionIsSaidToBe) {
  const std::string prefix(32, 'p');
  for (std::string bytes :
       {EncodeSharedPin(prefix, SomePin()), EncodeSharedPin({.prefix = prefix})}) {
    for (size_t size = 0; size < bytes.size(); ++size) {
      const auto cut = DecodeSharedPin(bytes.substr(0, size));
      ASSERT_FALSE(cut) << size;
      EXPECT_EQ(cut.error().code, ErrorCode::kDataLoss);
    }
    EXPECT_FALSE(DecodeSharedPin(bytes + "x"));
    bytes[1] = 9;
    EXPECT_FALSE(DecodeSharedPin(bytes));
    bytes[0] = 2;
    EXPECT_EQ(DecodeSharedPin(bytes).error().code, ErrorCode::kUnsupported);
  }
  store::meta::Pin empty = SomePin();
  empty.tokens.clear();
  EXPECT_FALSE(DecodeSharedPin(EncodeSharedPin(prefix, empty)));
}

}  // namespace
}  // namespace kvgate::runtime::sharing
