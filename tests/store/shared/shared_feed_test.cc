#include "store/shared/shared_feed.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/store/shared/memory_client.h"

namespace kvgate::store::shared {
namespace {

using Strings = std::vector<std::string>;

class SharedFeedTest : public testing::Test {
 protected:
  static SharedFeed::Options Named(std::string name, size_t take_max = 64) {
    SharedFeed::Options options;
    options.name = std::move(name);
    options.rows_max = 5;
    options.row_bytes_max = 100;
    options.take_max = take_max;
    return options;
  }
  static Strings Take(SharedFeed& feed) {
    const auto part = feed.Take();
    EXPECT_TRUE(part) << part.error().ToString();
    return part ? part->rows : Strings();
  }

  MemoryServer server_;
  MemoryClient client_{server_};
  MemoryClient other_client_{server_};
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  SharedFeed feed_{Named("prompts"), client_, *ring_};
  SharedFeed other_{Named("prompts"), other_client_, *ring_};
};

TEST_F(SharedFeedTest, EachGatewayTakesWhatWasAddedSinceItLastAsked) {
  ASSERT_TRUE(feed_.Add(Strings{"a", "b"}));
  EXPECT_EQ(Take(other_), (Strings{"a", "b"}));
  EXPECT_EQ(Take(other_), Strings());
  ASSERT_TRUE(other_.Add(Strings{"c"}));
  EXPECT_EQ(Take(other_), Strings{"c"});
  EXPECT_EQ(Take(feed_), (Strings{"a", "b", "c"}));
}

TEST_F(SharedFeedTest, ManyRowsComeInParts) {
  SharedFeed slow(Named("prompts", 2), other_client_, *ring_);
  ASSERT_TRUE(feed_.Add(Strings{"a", "b", "c"}));
  const auto first = slow.Take();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->rows, (Strings{"a", "b"}));
  EXPECT_TRUE(first->has_more);
  const auto second = slow.Take();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->rows, Strings{"c"});
  EXPECT_FALSE(second->has_more);
}

TEST_F(SharedFeedTest, TheOldestRowsLeaveAndTooLargeOnesDoNotCome) {
  ASSERT_TRUE(feed_.Add(Strings{"1", "2", "3", std::string(101, 'x'), "4", "5", "6"}));
  EXPECT_EQ(Take(other_), (Strings{"2", "3", "4", "5", "6"}));
}

TEST_F(SharedFeedTest, AnotherFeedAndAnotherSecretShareNothing) {
  ASSERT_TRUE(feed_.Add(Strings{"a"}));
  SharedFeed others(Named("templates"), client_, *ring_);
  EXPECT_EQ(Take(others), Strings());
  const std::unique_ptr<Keyring> strange = Keyring::Generate();
  SharedFeed stranger(Named("prompts"), client_, *strange);
  EXPECT_EQ(Take(stranger), Strings());
}

TEST_F(SharedFeedTest, NothingStandsThereInClearAndWhatIsForgedIsLeftOut) {
  ASSERT_TRUE(feed_.Add(Strings{"the words of a prompt"}));
  ASSERT_EQ(server_.streams.size(), 1u);
  std::vector<MemoryServer::Entry>& stream = server_.streams.begin()->second;
  EXPECT_EQ(stream[0].value.find("words"), std::string::npos);
  EXPECT_EQ(server_.streams.begin()->first.find("prompts"), std::string::npos);
  ASSERT_TRUE(feed_.Add(Strings{"whole"}));
  stream[0].value[30] ^= 1;
  const auto part = other_.Take();
  ASSERT_TRUE(part);
  EXPECT_EQ(part->rows, Strings{"whole"});
  EXPECT_EQ(part->num_damaged, 1u);
}

TEST_F(SharedFeedTest, AServerThatIsAwayCostsNoRow) {
  ASSERT_TRUE(feed_.Add(Strings{"a"}));
  other_client_.is_down = true;
  EXPECT_FALSE(other_.Take());
  EXPECT_FALSE(other_.Add(Strings{"b"}));
  other_client_.is_down = false;
  EXPECT_EQ(Take(other_), Strings{"a"});
  other_client_.is_full = true;
  EXPECT_EQ(other_.Add(Strings{"b"}).error().code, ErrorCode::kUnavailable);
}

TEST_F(SharedFeedTest, AServerThatForgetsBeginsAnew) {
  ASSERT_TRUE(feed_.Add(Strings{"a"}));
  EXPECT_EQ(Take(other_), Strings{"a"});
  server_.Flush();
  EXPECT_EQ(Take(other_), Strings());
  ASSERT_TRUE(feed_.Add(Strings{"b"}));
  EXPECT_EQ(Take(other_), Strings{"b"});
}

TEST_F(SharedFeedTest, WhatIsQueuedIsToldWhenTheServerTakesIt) {
  Strings heard;
  const auto hear = [&](std::string_view row) { heard.emplace_back(row); };
  feed_.Queue("a");
  client_.is_down = true;
  feed_.Queue("b");
  EXPECT_FALSE(feed_.AddQueued());
  feed_.Exchange(hear);
  EXPECT_EQ(heard, Strings());
  client_.is_down = false;
  ASSERT_TRUE(other_.Add(Strings{"theirs"}));
  feed_.Exchange(hear);
  EXPECT_EQ(heard, (Strings{"theirs", "a", "b"}));
  feed_.Exchange(hear);
  EXPECT_EQ(heard.size(), 3u);
  EXPECT_EQ(Take(other_), (Strings{"theirs", "a", "b"}));
}

TEST_F(SharedFeedTest, AQueueIsBounded) {
  SharedFeed::Options options = Named("prompts");
  options.queue_bytes_max = 10;
  SharedFeed feed(options, client_, *ring_);
  for (const std::string row : {"123456", "1234567", "1234"}) feed.Queue(row);
  EXPECT_TRUE(feed.AddQueued());
  EXPECT_EQ(Take(other_), (Strings{"123456", "1234"}));
}

TEST_F(SharedFeedTest, AServerThatCannotTrimGetsEachRowOnce) {
  const auto hear = [](std::string_view) {};
  client_.refused = "XTRIM";
  feed_.Queue("a");
  for (int i = 0; i < 3; ++i) feed_.Exchange(hear);
  EXPECT_EQ(Take(other_), Strings{"a"});
}

TEST_F(SharedFeedTest, AUserThatMayNotReadStillTells) {
  Strings heard;
  client_.refused = "XRANGE";
  feed_.Queue("a");
  feed_.Exchange([&](std::string_view row) { heard.emplace_back(row); });
  EXPECT_EQ(heard, Strings());
  EXPECT_EQ(Take(other_), Strings{"a"});
  client_.refused = "";
  feed_.Exchange([&](std::string_view row) { heard.emplace_back(row); });
  EXPECT_EQ(heard, Strings{"a"});
}

}  // namespace
}  // namespace kvgate::store::shared
