#include "gateway/telemetry/record_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/manual_clock.h"

namespace kvgate::telemetry {
namespace {

using ledger::RequestRecord;
using ledger::reply::TokenUsage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

RequestRecord Record(const std::string& id, const std::string& tenant = "t") {
  RequestRecord record;
  record.id = id;
  record.tenant = tenant;
  record.status = 200;
  record.usage = TokenUsage{
      .uncached_tokens = 1, .cache_read_tokens = 20, .cache_write_tokens = 3, .output_tokens = 4};
  record.cost =
      ledger::Cost{.nanodollars = 50, .uncached_nanodollars = 60, .direct_nanodollars = 55};
  return record;
}

RecordFeed::Filter Everything() {
  return [](const RequestRecord&) { return true; };
}

std::vector<std::string> IdsOf(const RecordFeed::Reader::Taken& taken) {
  std::vector<std::string> ids;
  for (const auto& text : taken.records) ids.push_back(nlohmann::json::parse(*text)["id"]);
  return ids;
}

TEST(RecordFeedTest, AReaderGetsWhatItsFilterLetsThroughInOrder) {
  RecordFeed feed;
  int num_woken = 0;
  feed.Publish(Record("before"));
  const auto reader =
      feed.Read({.filter = [](const RequestRecord& record) { return record.tenant == "alice"; },
                 .wake = [&] { ++num_woken; }})
          .value();
  EXPECT_TRUE(reader->is_empty());
  for (const char* id : {"a", "b", "c"}) {
    feed.Publish(Record(id, "alice"));
    feed.Publish(Record(id, "bob"));
  }
  EXPECT_FALSE(reader->is_empty());
  EXPECT_EQ(num_woken, 1) << "it has not looked since";
  EXPECT_THAT(IdsOf(reader->Take()), ElementsAre("a", "b", "c"));
  EXPECT_TRUE(reader->Take().records.empty());
  feed.Publish(Record("d", "alice"));
  EXPECT_EQ(num_woken, 2);
  EXPECT_THAT(IdsOf(reader->Take()), ElementsAre("d"));
}

TEST(RecordFeedTest, WhatDoesNotFitIsDroppedAndCountedForTheSlowReaderAlone) {
  RecordFeed feed({.records_max = 2});
  const auto slow = feed.Read({.filter = Everything(), .wake = [] {}}).value();
  const auto quick = feed.Read({.filter = Everything(), .wake = [] {}}).value();
  std::vector<std::string> seen;
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    feed.Publish(Record(id));
    for (std::string& got : IdsOf(quick->Take())) seen.push_back(std::move(got));
  }
  EXPECT_THAT(seen, ElementsAre("a", "b", "c", "d", "e"));
  const auto taken = slow->Take();
  EXPECT_THAT(IdsOf(taken), ElementsAre("a", "b"));
  EXPECT_EQ(taken.num_dropped, 3u);
  EXPECT_EQ(slow->Take().num_dropped, 0u);
  std::string text;
  metrics::TextWriter writer(text);
  feed.Collect(writer);
  EXPECT_THAT(text, HasSubstr("kvgate_event_readers 2\n"));
  EXPECT_THAT(text, HasSubstr("kvgate_event_records_dropped_total 3\n"));
}

TEST(RecordFeedTest, AReaderThatAsksForSomeASecondGetsThoseAndTheNumberOfTheOthers) {
  test::ManualClock clock;
  RecordFeed feed;
  const auto all = feed.Read({.filter = Everything(), .wake = [] {}}).value();
  const auto some =
      feed.Read({.filter = Everything(), .wake = [] {}, .records_per_second = 2}).value();
  for (const char* id : {"a", "b", "c", "d", "e"}) feed.Publish(Record(id));
  auto taken = some->Take();
  EXPECT_THAT(IdsOf(taken), ElementsAre("a", "b"));
  EXPECT_EQ(taken.num_dropped, 3u);
  feed.Publish(Record("f"));
  EXPECT_TRUE(some->is_empty()) << "nothing to send at once";
  clock.Advance(1s);
  feed.Publish(Record("g"));
  taken = some->Take();
  EXPECT_THAT(IdsOf(taken), ElementsAre("g"));
  EXPECT_EQ(taken.num_dropped, 1u);
  EXPECT_THAT(IdsOf(all->Take()), ElementsAre("a", "b", "c", "d", "e", "f", "g"));
  std::string text;
  metrics::TextWriter writer(text);
  feed.Collect(writer);
  EXPECT_THAT(text, HasSubstr("kvgate_event_records_dropped_total 0\n")) << "it is not slow";
}

TEST(RecordFeedTest, OnlySoManyReadersAreLetInUntilOneGoes) {
  RecordFeed feed({.readers_max = 2});
  auto first = feed.Read({.filter = Everything(), .wake = [] {}}).value();
  const auto second = feed.Read({.filter = Everything(), .wake = [] {}}).value();
  const auto refused = feed.Read({.filter = Everything(), .wake = [] {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  first.reset();
  EXPECT_TRUE(feed.Read({.filter = Everything(), .wake = [] {}}));
}

TEST(RecordFeedTest, CloseEndsReadersBehindWhatWaitsAndLetsInNoMore) {
  RecordFeed feed;
  int num_woken = 0;
  const auto reader = feed.Read({.filter = Everything(), .wake = [&] { ++num_woken; }}).value();
  feed.Publish(Record("a"));
  feed.Close();
  EXPECT_EQ(num_woken, 2);
  const auto taken = reader->Take();
  EXPECT_THAT(IdsOf(taken), ElementsAre("a"));
  EXPECT_TRUE(taken.has_ended);
  EXPECT_TRUE(reader->Take().has_ended);
  EXPECT_EQ(feed.Read({.filter = Everything(), .wake = [] {}}).error().code,
            ErrorCode::kUnavailable);
}

TEST(RecordFeedTest, TheLastMinuteIsSummedByTenantAndSlides) {
  test::ManualClock clock;
  RecordFeed feed({.tenants_max = 2});
  feed.Publish(Record("a", "alice"));
  RequestRecord failed = Record("b", "bob");
  failed.status = 500;
  feed.Publish(failed);
  EXPECT_EQ(feed.LastMinute(), (MinuteSums{.requests = 2,
                                           .failed = 1,
                                           .cached_tokens = 40,
                                           .written_tokens = 6,
                                           .uncached_tokens = 2,
                                           .output_tokens = 8,
                                           .nanodollars = 100,
                                           .uncached_nanodollars = 120,
                                           .direct_nanodollars = 110}));
  EXPECT_EQ(feed.LastMinute("alice").requests, 1);
  EXPECT_EQ(feed.LastMinute("alice").failed, 0);
  EXPECT_EQ(feed.LastMinute("nobody"), MinuteSums());
  clock.Advance(59s);
  feed.Publish(Record("c", "alice"));
  EXPECT_EQ(feed.LastMinute("alice").requests, 2);
  clock.Advance(1s);
  EXPECT_EQ(feed.LastMinute("alice").requests, 1) << "the first one is a minute old";
  clock.Advance(10min);
  EXPECT_EQ(feed.LastMinute(), MinuteSums());
  // A third tenant takes the place of the one that was idle longest.
  feed.Publish(Record("d", "carol"));
  feed.Publish(Record("e", "alice"));
  EXPECT_EQ(feed.LastMinute("carol").requests, 1);
  EXPECT_EQ(feed.LastMinute("bob"), MinuteSums());
}

TEST(RecordFeedTest, ReadersMayComeAndGoWhileRecordsAreAdded) {
  RecordFeed feed;
  std::atomic<bool> is_over{false};
  std::thread adder([&] {
    for (int i = 0; i < 3000; ++i) feed.Publish(Record(std::to_string(i)));
    is_over = true;
  });
  size_t num_read = 0;
  while (!is_over) {
    const auto reader = feed.Read({.filter = Everything(), .wake = [] {}}).value();
    num_read += reader->Take().records.size();
  }
  adder.join();
  EXPECT_LE(num_read, 3000u);
  EXPECT_EQ(feed.LastMinute().requests, 3000);
}

}  // namespace
}  // namespace kvgate::telemetry
