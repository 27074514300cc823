#include "gateway/ledger/rollup/batch.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace kvgate::ledger::rollup {
namespace {

Entry Of(int64_t minute, const std::string& tenant, const std::string& model) {
  Entry entry{.time_us = minute * kMinuteUs + 5,
              .tenant = tenant,
              .whole = {.requests = 1, .uncached_tokens = 10, .lost_nanodollars = -3},
              .names = {{By::kModel, model}, {By::kTenant, tenant}}};
  entry.whole.ttft.Add(1'000 + minute);
  entry.parts.push_back({.by = By::kSource, .name = "user", .bucket = {.cached_tokens = 7}});
  entry.parts.push_back({.by = By::kSource, .name = "user", .bucket = {.cached_tokens = 1}});
  return entry;
}

TEST(BatchTest, RequestsAreSummedByTenantMinuteAndName) {
  Batch batch;
  batch.Add(Of(5, "a", "m"));
  batch.Add(Of(5, "a", "n"));
  batch.Add(Of(5, "b", "m"));
  batch.Add(Of(6, "a", "m"));
  ASSERT_EQ(batch.sums().size(), 3U);
  const Batch::Names& names = batch.sums().at({.tenant = "a", .minute = 5});
  EXPECT_EQ(names.size(), 5U);
  EXPECT_EQ(names.at({By::kTotal, ""}).requests, 2);
  EXPECT_EQ(names.at({By::kTotal, ""}).ttft.count(), 2);
  EXPECT_EQ(names.at({By::kModel, "n"}).requests, 1);
  EXPECT_EQ(names.at({By::kSource, "user"}).cached_tokens, 16);
  batch.Clear();
  EXPECT_TRUE(batch.empty());
}

TEST(BatchTest, ARequestFromBefore1970IsOfTheFirstMinute) {
  Batch batch;
  batch.Add(Of(-5, "a", "m"));
  EXPECT_EQ(batch.sums().begin()->first.minute, 0);
  Batch read;
  EXPECT_TRUE(read.AddEncoded(batch.Encode()));
}

TEST(BatchTest, BytesAddWhatTheyHold) {
  Batch one;
  one.Add(Of(5, "a", "m"));
  one.Add(Of(900'000'000, "b/\x01", std::string(128, 'x')));
  Batch two;
  two.Add(Of(5, "a", "n"));
  Batch sum = one;
  sum.Merge(two);
  Batch read;
  ASSERT_TRUE(read.AddEncoded(one.Encode()));
  EXPECT_EQ(read, one);
  ASSERT_TRUE(read.AddEncoded(two.Encode()));
  EXPECT_EQ(read, sum);
  ASSERT_TRUE(read.AddEncoded(Batch().Encode()));
  EXPECT_EQ(read, sum);
}

TEST(BatchTest, DamagedBytesAddNothing) {
  Batch batch;
  batch.Add(Of(5, "a", "m"));
  const std::string bytes = batch.Encode();
  Batch read;
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(read.AddEncoded(bytes.substr(0, size))) << size;
  }
  EXPECT_FALSE(read.AddEncoded(bytes + "x"));
  EXPECT_FALSE(read.AddEncoded("\x02" + bytes.substr(1))) << "an unknown version";
  EXPECT_TRUE(read.empty());
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)read.AddEncoded(damaged);  // it may still be one
  }
}

}  // namespace
}  // namespace kvgate::ledger::rollup
