#include "store/sealed_value.h"

#include <gtest/gtest.h>

namespace kvgate::store {
namespace {

constexpr SealedKind kKind = {.magic = 7, .version = 2, .source = "store.test", .name = "a thing"};

TEST(SealedValueTest, ItsBodyComesBackUnderItsOwnKeyOnly) {
  const std::string value = Seal(kKind, "key", "body");
  auto reader = Unseal(kKind, "key", value);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->TakeBytes(4), "body");
  EXPECT_TRUE(reader->at_end());
  EXPECT_EQ(Unseal(kKind, "kez", value).error().code, ErrorCode::kDataLoss);
}

TEST(SealedValueTest, EveryChangedOrMissingByteIsFoundOut) {
  const std::string value = Seal(kKind, "key", "body");
  for (size_t i = 0; i < value.size(); ++i) {
    std::string changed = value;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(Unseal(kKind, "key", changed)) << i;
    EXPECT_FALSE(Unseal(kKind, "key", value.substr(0, i))) << i;
  }
}

TEST(SealedValueTest, AnotherKindOrVersionIsNamed) {
  SealedKind newer = kKind;
  newer.version = 3;
  const auto read = Unseal(newer, "key", Seal(kKind, "key", ""));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().detail, "a thing: version 2, not 3");
  SealedKind other = kKind;
  other.magic = 8;
  EXPECT_FALSE(Unseal(other, "key", Seal(kKind, "key", "")));
}

}  // namespace
}  // namespace kvgate::store
