#include "gateway/telemetry/record_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gateway/ledger/request_record.h"
#include "tests/gateway/proxy/test_proxy.h"

namespace kvgate::proxy::handler {
namespace {

using telemetry::RecordFeed;
using test::TestProxy;
using test::TestSink;
using ::testing::HasSubstr;
using ::testing::Not;

ledger::RequestRecord Record(const std::string& id, const std::string& upstream = "main") {
  ledger::RequestRecord record;
  record.id = id;
  record.upstream = upstream;
  record.status = 200;
  return record;
}

const test::TestRequest kFollow{.method = "GET", .path = "/kvgate/v1/events"};

TEST(EventsTest, RecordsThatAreAddedGoOutBetweenNumbersUntilTheFeedEnds) {
  RecordFeed feed;
  TestProxy proxy({.options = {.feed = &feed}});
  TestSink sink(proxy.io());
  proxy.Serve(kFollow, sink, [&] {
    feed.Publish(Record("a1"));
    feed.Publish(Record("a2"));
    feed.Close();
  });
  EXPECT_EQ(sink.status, 200);
  EXPECT_TRUE(sink.is_complete);
  EXPECT_THAT(sink.body, HasSubstr("event: stats\ndata: {\"time_us\":"));
  EXPECT_THAT(sink.body, HasSubstr("event: request\ndata: {\"id\":\"a1\","));
  EXPECT_LT(sink.body.find("\"a1\""), sink.body.find("\"a2\""));
}

TEST(EventsTest, AFilterLetsThroughWhatItNames) {
  RecordFeed feed;
  TestProxy proxy({.options = {.feed = &feed}});
  TestSink sink(proxy.io());
  proxy.Serve({.method = "GET", .path = "/kvgate/v1/events?upstream=main"}, sink, [&] {
    feed.Publish(Record("a1", "other"));
    feed.Publish(Record("a2"));
    feed.Close();
  });
  EXPECT_THAT(sink.body, Not(HasSubstr("a1")));
  EXPECT_THAT(sink.body, HasSubstr("\"a2\""));
}

TEST(EventsTest, AParameterThatIsNotKnownIsNamed) {
  RecordFeed feed;
  TestProxy proxy({.options = {.feed = &feed}});
  for (const char* query : {"limit=1", "x=%20", "status=many"}) {
    TestSink sink(proxy.io());
    proxy.Serve({.method = "GET", .path = std::string("/kvgate/v1/events?") + query}, sink);
    EXPECT_EQ(sink.status, 400) << query;
  }
}

TEST(EventsTest, WhatASlowReaderMissesIsSaid) {
  RecordFeed feed({.records_max = 2});
  TestProxy proxy({.options = {.feed = &feed}});
  TestSink sink(proxy.io());
  sink.write_delay = std::chrono::milliseconds(20);
  proxy.Serve(kFollow, sink, [&] {
    for (int i = 0; i < 12; ++i) feed.Publish(Record("a" + std::to_string(i)));
    feed.Close();
  });
  EXPECT_THAT(sink.body, HasSubstr("event: dropped\ndata: {\"count\":10}\n\n"));
}

TEST(EventsTest, AClientThatLeavesMakesRoom) {
  RecordFeed feed({.readers_max = 1});
  TestProxy proxy({.options = {.feed = &feed}});
  TestSink sink(proxy.io());
  TestSink second(proxy.io());
  proxy.Serve(kFollow, sink, [&] { sink.Leave(); });
  proxy.Serve(kFollow, second, [&] { feed.Close(); });
  EXPECT_EQ(second.status, 200);
}

TEST(EventsTest, OneReaderTooManyIsRefused) {
  RecordFeed feed({.readers_max = 0});
  TestProxy proxy({.options = {.feed = &feed}});
  TestSink sink(proxy.io());
  proxy.Serve(kFollow, sink);
  EXPECT_EQ(sink.status, 503);
}

TEST(EventsTest, WhenTheServerWantsAnswersToEndTheStreamIsCompleted) {
  RecordFeed feed;
  TestProxy proxy({.options = {.feed = &feed}});
  TestSink sink(proxy.io());
  proxy.Serve(kFollow, sink, [&] { sink.End(); });
  EXPECT_TRUE(sink.is_complete);
}

TEST(EventsTest, WithoutRecordsThereIsNothingToFollow) {
  TestProxy proxy;
  TestSink sink(proxy.io());
  proxy.Serve(kFollow, sink);
  EXPECT_EQ(sink.status, 503);
}

}  // namespace
}  // namespace kvgate::proxy::handler
