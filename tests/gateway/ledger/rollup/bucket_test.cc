#include "gateway/ledger/rollup/bucket.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace kvgate::ledger::rollup {
namespace {

Bucket RandomBucket(std::mt19937_64& random) {
  Bucket bucket;
  const auto number = [&] { return static_cast<int64_t>(random() >> (16 + random() % 40)); };
  for (int64_t Bucket::*count :
       {&Bucket::requests, &Bucket::failed, &Bucket::cached_tokens, &Bucket::written_tokens,
        &Bucket::uncached_tokens, &Bucket::output_tokens, &Bucket::nanodollars,
        &Bucket::uncached_nanodollars, &Bucket::breaks, &Bucket::lost_tokens,
        &Bucket::decoded_tokens, &Bucket::decode_us, &Bucket::direct_nanodollars}) {
    if (random() % 3 != 0) bucket.*count = number();
  }
  bucket.lost_nanodollars = -number();
  for (size_t i = random() % 5; i > 0; --i) bucket.ttft.Add(number());
  for (size_t i = random() % 5; i > 0; --i) bucket.tpot.Add(number());
  return bucket;
}

TEST(BucketTest, ItsBytesGiveTheSameBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    const Bucket bucket = RandomBucket(random);
    Bucket read;
    ASSERT_TRUE(DecodeBucket(EncodeBucket(bucket), read));
    EXPECT_EQ(read, bucket);
  }
}

TEST(BucketTest, BrokenBytesAreRefused) {
  std::mt19937_64 random(2);
  const std::string bytes = EncodeBucket(RandomBucket(random));
  Bucket read;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeBucket(bytes.substr(0, size), read)) << size;
  }
  EXPECT_FALSE(DecodeBucket(bytes + "x", read));
  std::string newer = bytes;
  newer.front() = 3;
  EXPECT_FALSE(DecodeBucket(newer, read));
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = bytes;
    changed[random() % changed.size()] = static_cast<char>(random());
    (void)DecodeBucket(changed, read);
  }
}

TEST(BucketTest, ARowOfVersionOneHasItsCostAsTheDirectOne) {
  // requests 2, nanodollars 5, 10 output tokens; ttft of one request in the bucket of 3 us.
  const std::string bytes("\x01\xe1\x40\x04\x14\x0a\x01\x03\x01", 9);
  Bucket read;
  ASSERT_TRUE(DecodeBucket(bytes, read));
  EXPECT_EQ(read.requests, 2);
  EXPECT_EQ(read.output_tokens, 10);
  EXPECT_EQ(read.nanodollars, 5);
  EXPECT_EQ(read.direct_nanodollars, 5);
  EXPECT_EQ(read.ttft.count(), 1);
  EXPECT_TRUE(read.tpot.empty());
}

TEST(BucketTest, NumbersThatNoServerHasAreDamage) {
  Bucket read;
  EXPECT_TRUE(DecodeBucket(EncodeBucket({.requests = int64_t{1} << 53}), read));
  EXPECT_FALSE(DecodeBucket(EncodeBucket({.requests = (int64_t{1} << 53) + 1}), read));
  EXPECT_FALSE(DecodeBucket(EncodeBucket({.lost_nanodollars = -(int64_t{1} << 60)}), read));
  Bucket counted;
  counted.ttft.Add(5, (int64_t{1} << 53) + 1);
  EXPECT_FALSE(DecodeBucket(EncodeBucket(counted), read));
}

TEST(BucketTest, SumsAddUpInAnyOrder) {
  std::mt19937_64 random(3);
  const Bucket a = RandomBucket(random);
  const Bucket b = RandomBucket(random);
  Bucket ab = a;
  ab.Merge(b);
  Bucket ba = b;
  ba.Merge(a);
  EXPECT_EQ(ab, ba);
  EXPECT_EQ(ab.lost_nanodollars, a.lost_nanodollars + b.lost_nanodollars);
}

TEST(BucketTest, AnOrdinaryRowIsSmall) {
  Bucket bucket{.requests = 1, .uncached_tokens = 1000, .output_tokens = 90};
  bucket.ttft.Add(350'000);
  EXPECT_LT(EncodeBucket(bucket).size(), 20U);
}

}  // namespace
}  // namespace kvgate::ledger::rollup
