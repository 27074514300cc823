#include "gateway/route/route_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::route {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> kUpstreams = {"a", "b", "c"};

config::RouteConfig Pool(std::vector<std::string> targets) {
  return {.models = {"gpt-*"}, .targets = std::move(targets), .balance = "order"};
}

std::vector<std::string> Asked(Route& route, const Query& query, std::string_view down = "") {
  std::vector<std::string> names;
  for (const Target* target : route.Candidates(query, [&](const Target& looked_at) {
         return Affinity::Member{.usable = looked_at.upstream != down};
       })) {
    names.push_back(target->model.empty() ? target->upstream
                                          : target->upstream + "=" + target->model);
  }
  return names;
}

TEST(RouteTableTest, TheFirstRouteThatTakesTheModelCounts) {
  const auto table = RouteTable::Open({Pool({"a"}), {.targets = {"b"}}}, kUpstreams, false);
  ASSERT_TRUE(table);
  EXPECT_THAT((*table)->Find("gpt-5.5")->config().targets, ElementsAre("a"));
  EXPECT_THAT((*table)->Find("other")->config().targets, ElementsAre("b"));
  const auto narrow = RouteTable::Open({Pool({"a"})}, kUpstreams, false);
  EXPECT_EQ((*narrow)->Find("other"), nullptr);
}

TEST(RouteTableTest, ATargetThatIsNotThereIsNamed) {
  const auto unknown = RouteTable::Open({Pool({"a", "nobody/m"})}, kUpstreams, false);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().detail, HasSubstr("'nobody/m'"));
  EXPECT_FALSE(RouteTable::Open({Pool({"local"})}, kUpstreams, false));
  EXPECT_TRUE(RouteTable::Open({Pool({"local"})}, kUpstreams, true));
  config::RouteConfig short_ones = Pool({"a"});
  short_ones.local_tokens_max = 10;
  EXPECT_FALSE(RouteTable::Open({short_ones}, kUpstreams, false));
}

TEST(RouteTest, ThePoolThenTheFallbackAndWhatIsDownBehindTheRestOfItsPool) {
  config::RouteConfig config = Pool({"a/x/y", "b"});
  config.fallback = {"c", "local"};
  Route route(config);
  EXPECT_THAT(Asked(route, {}), ElementsAre("a=x/y", "b", "c", "local"));
  EXPECT_THAT(Asked(route, {}, "a"), ElementsAre("b", "a=x/y", "c", "local"));
}

TEST(RouteTest, ShortPromptsGoToTheEngineFirstAndHardOnesDoNot) {
  config::RouteConfig config = Pool({"a"});
  config.local_tokens_max = 100;
  config.fallback = {"local"};
  Route route(config);
  EXPECT_THAT(Asked(route, {.num_tokens = 100}), ElementsAre("local", "a"));
  EXPECT_THAT(Asked(route, {.num_tokens = 101}), ElementsAre("a", "local"));
  EXPECT_THAT(Asked(route, {.num_tokens = 5, .is_hard = true}), ElementsAre("a", "local"));
}

TEST(RouteTest, WhatIsPrivateGoesToTheEngineAndNowhereElse) {
  Route route(Pool({"a", "b"}));
  EXPECT_THAT(Asked(route, {.num_tokens = 1 << 20, .is_private = true, .is_hard = true}),
              ElementsAre("local"));
}

TEST(RouteTest, AConversationIsAskedWhereItWasAnswered) {
  config::RouteConfig config = Pool({"a", "b", "c"});
  config.balance = "prefix";
  Route route(config);
  const Query query{.conversation = {.low = 1}, .prefix = {.low = 2}};
  const std::string last = Asked(route, query).back();
  route.Keep(query, {.upstream = last, .model = {}});
  EXPECT_EQ(Asked(route, query).front(), last);
  EXPECT_EQ(Asked(route, query, last).back(), last) << "unless it is down";
}

TEST(IsFallbackStatusTest, OnlyWhatSaysNotNow) {
  for (const int status : {429, 500, 502, 503, 504, 529}) EXPECT_TRUE(IsFallbackStatus(status));
  for (const int status : {200, 400, 401, 404, 413, 501}) EXPECT_FALSE(IsFallbackStatus(status));
}

}  // namespace
}  // namespace kvgate::route
