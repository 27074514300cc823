#include "base/digest.h"

#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace kvgate {
namespace {

TEST(Sha256Test, MatchesTheStandardsVectorsAndStartsAnewAfterFinish) {
  Sha256 sha;
  // FIPS 180-4 examples: "abc" and the empty message.
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  const std::string empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  EXPECT_EQ(ToHex(sha.Update("abc").Finish().bytes), abc);
  EXPECT_EQ(ToHex(sha.Finish().bytes), empty);
  EXPECT_EQ(ToHex(sha.Update("a").Update("bc").Finish().bytes), abc);
  EXPECT_EQ(ToHex(ThreadSha256().Update("abc").Finish().bytes), abc);
  EXPECT_EQ(ToHex(ThreadSha256().Finish().bytes), empty);
}

TEST(Sha256Test, ContinuesFromTheUpdatesOfAnother) {
  const std::string part(100, 'x');
  Sha256 first;
  first.Update(part);
  Sha256 second;
  second.Update("is forgotten").ContinueFrom(first);
  first.Update("1");
  second.Update("2");
  EXPECT_EQ(first.Finish(), Sha256().Update(part + "1").Finish());
  EXPECT_EQ(second.Finish(), Sha256().Update(part + "2").Finish());
  second.ContinueFrom(first);
  EXPECT_EQ(second.Finish(), Sha256().Finish()) << "a finished digest has no updates";
}

TEST(HmacSha256Test, MatchesTheStandardsVectors) {  // RFC 4231, cases 2 and 6
  EXPECT_EQ(ToHex(HmacSha256("Jefe", "what do ya want for nothing?").bytes),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(ToHex(HmacSha256(std::string(131, '\xaa'),
                             "Test Using Larger Than Block-Size Key - Hash Key First")
                      .bytes),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Xxh3Test, DependsOnEveryByteAndTheSeed) {
  std::vector<std::byte> data(100);
  const auto base = Xxh3(data);
  EXPECT_EQ(base, Xxh3(data));
  EXPECT_NE(base, Xxh3(data, 1));
  data[99] = std::byte{1};
  EXPECT_NE(base, Xxh3(data));
}

TEST(RandomSeedTest, SeedsDifferAndUseAllBits) {
  std::set<uint64_t> seen;
  uint64_t ones = 0;
  uint64_t zeros = 0;
  for (int i = 0; i < 128; ++i) {
    const uint64_t seed = RandomSeed();
    seen.insert(seed);
    ones |= seed;
    zeros |= ~seed;
  }
  EXPECT_EQ(seen.size(), 128u);
  EXPECT_EQ(ones, ~uint64_t{0});
  EXPECT_EQ(zeros, ~uint64_t{0});
}

TEST(SecretHashTest, HashesAreEqualForEqualTextsOnly) {
  EXPECT_EQ(SecretHash("name"), SecretHash(std::string("na") + "me"));
  EXPECT_NE(SecretHash("name"), SecretHash("Name"));
  EXPECT_NE(SecretHash("name"), Xxh3(std::as_bytes(std::span(std::string_view("name")))).first);
}

TEST(IdsTest, HashesRoundTripThroughHexAndRefuseOtherText) {
  const BlockHash hash{.low = 0x0123456789abcdef, .high = 0xfedcba9876543210};
  EXPECT_EQ(ToHex(hash), "fedcba98765432100123456789abcdef");
  EXPECT_EQ(ParseBlockHash(ToHex(hash)).value(), hash);
  for (const std::string bad : {"", "12", "zedcba98765432100123456789abcdef"}) {
    EXPECT_EQ(ParseBlockHash(bad).error().code, ErrorCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace kvgate
