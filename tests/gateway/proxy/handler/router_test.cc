#include "gateway/proxy/handler/router.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::proxy::handler {

using request::IsKept;
using request::PathOf;

namespace {

TEST(RouterTest, FindsRoutesWhateverTheFormOfTheTarget) {
  for (const char* target : {"/v1/chat/completions", "/v1/chat/completions?beta=true",
                             "http://localhost:8080/v1/chat/completions"}) {
    const RouteResult found = FindRoute("POST", target);
    ASSERT_TRUE(found.match) << target;
    EXPECT_EQ(found.match->place.route, Route::kChatCompletions);
    EXPECT_TRUE(found.match->place.openai_dialect);
  }
  EXPECT_EQ(FindRoute("GET", "http://localhost").match->place.route, Route::kRoot);
  EXPECT_EQ(FindRoute("HEAD", "/").match->place.route, Route::kRoot);
}

TEST(RouterTest, AUrlIsOneOnlyAtTheBeginningOfATarget) {
  EXPECT_EQ(PathOf("http://localhost/v1/models?a"), "/v1/models");
  EXPECT_EQ(PathOf("/x://localhost/v1/models"), "/x://localhost/v1/models");
  EXPECT_FALSE(FindRoute("GET", "/x://localhost/v1/models").match);
}

TEST(RouterTest, IdsMayHoldSlashesAndEscapes) {
  EXPECT_EQ(FindRoute("GET", "/v1/models/org/name").match->place.argument, "org/name");
  EXPECT_EQ(FindRoute("GET", "/v1/models/a%20b%2").match->place.argument, "a b%2");
  EXPECT_FALSE(FindRoute("GET", "/v1/models/").match);
}

// An upstream may take the part after a slash, or after "%2F", for a path other than ours.
TEST(RouterTest, OnlyModelsHaveNamesWithSlashes) {
  for (const char* target :
       {"/v1/responses/a/b", "/v1/responses/a%2Fb", "/v1/responses/a%2fb/input_items",
        "/v1/conversations/a/b/c", "/v1/conversations/a/items/b%2Fc", "/kvgate/v1/requests/a/b"}) {
    EXPECT_FALSE(FindRoute("GET", target).match) << target;
  }
  EXPECT_TRUE(FindRoute("GET", "/v1/responses/a%20b").match);
}

// tests/e2e/roles_test.py covers the whole table by asking every route with every role.
TEST(RouterTest, ARouteSaysWhatItAsksOfItsCaller) {
  using access::Access;
  const auto access = [](std::string_view method, std::string_view target) {
    return FindRoute(method, target).match->access;
  };
  EXPECT_EQ(access("GET", "/health"), Access::kOpen);
  EXPECT_EQ(access("HEAD", "/metrics"), Access::kMetrics);
  EXPECT_EQ(access("POST", "/v1/chat/completions"), Access::kUser);
  EXPECT_EQ(access("GET", "/kvgate/v1/requests"), Access::kOwn);
  EXPECT_EQ(access("DELETE", "/kvgate/v1/prefixes/ab"), Access::kOwn);
  EXPECT_EQ(access("DELETE", "/kvgate/v1/prefixes"), Access::kAdmin);
  EXPECT_EQ(access("POST", "/kvgate/v1/prefixes/import"), Access::kAdmin);
  EXPECT_EQ(access("POST", "/kvgate/v1/prefixes/verify"), Access::kAdmin);
  EXPECT_EQ(RouteMatch().access, Access::kAdmin) << "what says nothing";
}

TEST(RouterTest, AWrongMethodSaysWhichAreAllowed) {
  const RouteResult found = FindRoute("POST", "/kvgate/v1/prefixes");
  ASSERT_FALSE(found.match);
  EXPECT_EQ(found.refusal.status, 405);
  EXPECT_EQ(found.refusal.headers[0].second, "GET, HEAD, DELETE");
}

TEST(RouterTest, WhatCanBeDoneWithOnePrefixStandsBehindItsId) {
  const auto route = [](std::string_view method, std::string_view target) {
    return FindRoute(method, target).match->place.route;
  };
  EXPECT_EQ(route("POST", "/kvgate/v1/prefixes/ab/pin"), Route::kPrefixPin);
  EXPECT_EQ(route("DELETE", "/kvgate/v1/prefixes/ab/pin"), Route::kPrefixUnpin);
  EXPECT_EQ(route("DELETE", "/kvgate/v1/prefixes/ab"), Route::kPrefixRemove);
  EXPECT_EQ(route("GET", "/kvgate/v1/prefixes/ab/export"), Route::kPrefixExport);
  EXPECT_EQ(FindRoute("POST", "/kvgate/v1/prefixes/ab/pin").match->place.argument, "ab");
  EXPECT_FALSE(FindRoute("POST", "/kvgate/v1/prefixes/a/b/pin").match);
  EXPECT_FALSE(FindRoute("POST", "/kvgate/v1/prefixes//pin").match);
  EXPECT_EQ(FindRoute("PUT", "/kvgate/v1/prefixes/ab/pin").refusal.headers[0].second,
            "POST, DELETE");
  EXPECT_TRUE(FindRoute("DELETE", "/kvgate/v1/prefixes/ab?force=1").match->place.force);
  EXPECT_FALSE(FindRoute("DELETE", "/kvgate/v1/prefixes/ab?force=0").match->place.force);
}

TEST(RouterTest, ResponsesAndConversationsHaveIdsAndItems) {
  const auto route = [](std::string_view method, std::string_view target) {
    return FindRoute(method, target).match->place.route;
  };
  EXPECT_EQ(route("POST", "/v1/responses"), Route::kResponses);
  EXPECT_EQ(route("POST", "/v1/responses/input_tokens"), Route::kInputTokens);
  EXPECT_EQ(route("GET", "/v1/responses/resp_1?include=x"), Route::kResponse);
  EXPECT_EQ(route("DELETE", "/v1/responses/resp_1"), Route::kResponseDelete);
  EXPECT_EQ(route("GET", "/v1/responses/resp_1/input_items"), Route::kResponseItems);
  EXPECT_EQ(route("POST", "/v1/responses/resp_1/cancel"), Route::kResponseCancel);
  EXPECT_EQ(route("POST", "/v1/conversations"), Route::kConversations);
  EXPECT_EQ(route("POST", "/v1/conversations/conv_1"), Route::kConversationUpdate);
  EXPECT_EQ(route("GET", "/v1/conversations/conv_1/items"), Route::kConversationItems);
  EXPECT_EQ(route("POST", "/v1/conversations/conv_1/items"), Route::kConversationAdd);
  const auto item = FindRoute("DELETE", "/v1/conversations/conv%5F1/items/msg%5F2").match;
  ASSERT_TRUE(item);
  EXPECT_EQ(item->place.route, Route::kConversationItemDelete);
  EXPECT_EQ(item->place.argument, "conv_1");
  EXPECT_EQ(item->place.item, "msg_2");
  EXPECT_TRUE(IsKept(item->place.route));
  EXPECT_FALSE(IsKept(Route::kResponses));
  EXPECT_FALSE(IsKept(Route::kModels));
  EXPECT_EQ(FindRoute("PUT", "/v1/conversations/c/items/i").refusal.status, 405);
}

TEST(RouterTest, AQueryIsNoPartOfAPath) {
  constexpr std::string_view kTarget = "/kvgate/v1/requests?limit=5&before=a%2Fb&flag#part=2";
  EXPECT_EQ(FindRoute("GET", kTarget).match->place.route, Route::kRequests);
  EXPECT_EQ(FindRoute("GET", "/kvgate/v1/requests/0123").match->place.argument, "0123");
}

TEST(RouterTest, NearMissesAreNotFound) {
  for (const char* target : {"", "/v1", "/v1/", "/v1/chat/completions/", "//health", "/HEALTH"}) {
    EXPECT_EQ(FindRoute("GET", target).refusal.status, 404) << target;
  }
}

TEST(RouterTest, ABaseUrlMayEndInTheVersionOrNot) {
  for (const auto& [target, canonical] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"/chat/completions", "/v1/chat/completions"},
           {"/v1/v1/chat/completions", "/v1/chat/completions"},
           {"/messages?beta=true", "/v1/messages?beta=true"},
           {"/messages/count_tokens", "/v1/messages/count_tokens"},
           {"/responses/resp_1/input_items", "/v1/responses/resp_1/input_items"},
           {"/models", "/v1/models"},
           {"/models/org/name?x=1", "/v1/models/org/name?x=1"},
           {"/embeddings", "/v1/embeddings"},
           {"/v1/kvgate/v1/stats", "/kvgate/v1/stats"},
           {"http://localhost:8080/responses", "/v1/responses"}}) {
    EXPECT_EQ(CanonicalTarget(target), canonical) << target;
  }
  for (const std::string_view same :
       {"/", "/health", "//health", "//v1/messages", "/v1//responses", "/v1", "/v1/",
        "/v1/chat/completions", "/v1/models/v1/x", "/v1/chat/completions/", "/v1/foo", "/v1/v1/foo",
        "/foo?x=/v1/models", "/v1/health", "/v1/metrics", "/v1/%6dodels",
        "http://localhost/v1/models", ""}) {
    EXPECT_EQ(CanonicalTarget(same), same) << same;
  }
}

TEST(RouterTest, ANotFoundSaysWhatIsMeant) {
  const auto said = [](std::string_view target) { return FindRoute("POST", target).refusal.body; };
  EXPECT_NE(said("/api/v1/chat/completions").find("/v1/chat/completions is what is meant"),
            std::string::npos);
  EXPECT_NE(said("/openai/responses/").find("/v1/responses is what is meant"), std::string::npos);
  EXPECT_EQ(said("/v1/foo").find("is what is meant"), std::string::npos);
}

}  // namespace
}  // namespace kvgate::proxy::handler
