#include "gateway/proxy/handler/own_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "base/digest.h"
#include "tests/gateway/proxy/test_proxy.h"
#include "tests/gateway/service/kept_responses.h"
#include "tests/gateway/upstream/model_provider.h"

namespace kvgate::proxy::handler {
namespace {

using test::ModelProvider;
using test::TestProxy;
using test::TestRequest;
using test::TestSink;
using ::testing::HasSubstr;

std::string Ask(TestProxy& proxy, const TestRequest& request, int status = 200) {
  TestSink sink(proxy.io());
  proxy.Serve(request, sink);
  EXPECT_EQ(sink.status, status) << request.path << " " << sink.body;
  return sink.body;
}

TEST(OwnDataTest, OnlyWhatWaitsForNothingRunsOnTheEventLoop) {
  for (const Route route : {Route::kHealth, Route::kReady, Route::kModels}) {
    EXPECT_EQ(PlaceOf(route), CallPlace::kHere);
  }
  EXPECT_EQ(PlaceOf(Route::kMetrics), CallPlace::kKnown);
  EXPECT_EQ(PlaceOf(Route::kPrefixesVerify), CallPlace::kBulk);
  for (const Route route : {Route::kResponse, Route::kConversationAdd, Route::kPrefixPin,
                            Route::kRequests, Route::kPrefixes}) {
    EXPECT_EQ(PlaceOf(route), CallPlace::kStore);
  }
}

TEST(OwnDataTest, AServerSaysHowItIs) {
  TestProxy proxy;
  EXPECT_THAT(Ask(proxy, {.method = "GET", .path = "/"}), HasSubstr("kvgate"));
  EXPECT_THAT(Ask(proxy, {.method = "GET", .path = "/health"}), HasSubstr("ok"));
  EXPECT_THAT(Ask(proxy, {.method = "GET", .path = "/ready"}), HasSubstr("ready"));
  EXPECT_THAT(Ask(proxy, {.method = "GET", .path = "/metrics"}),
              HasSubstr("kvgate_http_requests_total"));
  Ask(proxy, {.method = "GET", .path = "/kvgate/v1/stats"});
  proxy.gateway.service.BeginDrain();
  Ask(proxy, {.method = "GET", .path = "/ready"}, 503);
  Ask(proxy, {.method = "GET", .path = "/health"});
}

TEST(OwnDataTest, WithoutALedgerAndADiskWhatNeedsThemSaysSo) {
  TestProxy proxy;
  TestSink sink(proxy.io());
  proxy.Serve({.method = "GET", .path = "/kvgate/v1/requests"}, sink);
  EXPECT_GE(sink.status, 400);
  EXPECT_THAT(Ask(proxy, {.method = "GET", .path = "/kvgate/v1/prefixes"}, 503),
              HasSubstr("switched off"));
}

TEST(OwnDataTest, TemplatesAreListedForTheirTenantAndForAnAdmin) {
  TestProxy unexamined;
  Ask(unexamined, {.method = "GET", .path = "/kvgate/v1/templates"}, 404);
  service::Prompts prompts{prompt::Optimizer::Options{}};
  TestProxy proxy({.options = {.prompts = &prompts}});
  EXPECT_THAT(Ask(proxy, {.method = "GET", .path = "/kvgate/v1/templates"}),
              HasSubstr(R"("data":[])"));
  const auto status = [&](access::CallerRole role, const std::string& query) {
    return Answer({.service = proxy.gateway.service,
                   .prompts = &prompts,
                   .route = Route::kTemplates,
                   .target = "/kvgate/v1/templates" + query,
                   .caller = {.role = role, .tenant = "me"}})
        .status;
  };
  EXPECT_EQ(status(access::CallerRole::kUser, ""), 200);
  EXPECT_EQ(status(access::CallerRole::kUser, "?tenant=me"), 200);
  EXPECT_EQ(status(access::CallerRole::kUser, "?tenant=you"), 403);
  EXPECT_EQ(status(access::CallerRole::kAdmin, "?tenant=you"), 200);
}

TEST(OwnDataTest, AFullQueueIsSaidAndTheBodyGivenBack) {
  TestProxy proxy({.pools = {.store_threads = 1, .queue_max = 2}});
  std::promise<void> release;
  const auto held = release.get_future().share();
  ASSERT_TRUE(proxy.pools().store.Post("other", [held] { held.wait(); }));
  while (proxy.pools().store.Post("", [held] { held.wait(); })) {
  }
  EXPECT_THAT(Ask(proxy, {.path = "/v1/conversations", .body = "{}"}, 503), HasSubstr("threads"));
  EXPECT_EQ(proxy.bodies().bytes(), 0u);
  Ask(proxy, {.method = "GET", .path = "/health"});
  release.set_value();
}

TEST(OwnDataTest, AConversationIsKeptForItsCallerOnly) {
  store::MemoryMetaStore meta;
  const auto turns = test::OpenTurns(meta);
  TestProxy proxy({.turns = turns.get()});
  const std::vector<std::pair<std::string, std::string>> own = {{"x-api-key", "sk-1"}};
  const std::string made = Ask(proxy, {.path = "/v1/conversations", .body = "{}", .fields = own});
  const size_t begin = made.find("conv_");
  ASSERT_NE(begin, std::string::npos) << made;
  const std::string path = "/v1/conversations/" + made.substr(begin, made.find('"', begin) - begin);
  Ask(proxy, {.method = "GET", .path = path, .fields = own});
  Ask(proxy, {.method = "GET", .path = path, .fields = {{"x-api-key", "sk-2"}}}, 404);
  Ask(proxy, {.path = path + "/items",
              .body = R"({"items":[{"type":"message","role":"user","content":"hi"}]})",
              .fields = own});
  EXPECT_THAT(Ask(proxy, {.method = "GET", .path = path + "/items?limit=1", .fields = own}),
              HasSubstr("hi"));
  Ask(proxy, {.method = "DELETE", .path = path, .fields = own});
  Ask(proxy, {.method = "GET", .path = path, .fields = own}, 404);
}

TEST(OwnDataTest, AnIdThatAnUpstreamMadeGoesToIt) {
  ModelProvider openai("openai");
  TestProxy proxy({.targets = {.upstreams = {openai.Config({"*"})}}});
  TestSink foreign(proxy.io());
  proxy.Serve({.method = "GET", .path = "/v1/responses/resp_theirs"}, foreign);
  EXPECT_EQ(foreign.status, 200);
  ASSERT_EQ(openai.requests().size(), 1u);
  EXPECT_THAT(openai.requests()[0], HasSubstr("GET /v1/responses/resp_theirs"));
  TestSink own(proxy.io());
  proxy.Serve(
      {.method = "GET", .path = std::string("/v1/responses/resp_kv") + test::kTestRequestId}, own);
  EXPECT_NE(own.status, 200);
  EXPECT_EQ(openai.requests().size(), 1u);
}

TEST(OwnDataTest, CountedDataCountsAgainstTheKeysLimits) {
  config::KeyConfig key;
  key.name = "team";
  key.sha256 = ToHex(ThreadSha256().Update("key").Finish().bytes);
  key.requests_per_minute = 1;
  TestProxy proxy({.targets = {.keys = {key}}});
  const TestRequest counted = {
      .method = "GET", .path = "/v1/models/fake-model", .fields = {{"x-kvgate-key", "key"}}};
  Ask(proxy, counted);
  Ask(proxy, counted, 429);
  Ask(proxy, {.method = "GET", .path = "/health"});
}

TEST(OwnDataTest, TheDashboardAndItsFilesAreThere) {
  TestProxy proxy;
  TestSink page(proxy.io());
  proxy.Serve({.method = "GET", .path = "/dashboard/"}, page);
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.body, HasSubstr("./assets/dashboard.js"));
  for (const char* path : {"/dashboard/assets/dashboard.js", "/dashboard/assets/dashboard.css",
                           "/dashboard/assets/icon.svg"}) {
    TestSink sink(proxy.io());
    proxy.Serve({.method = "GET", .path = path}, sink);
    EXPECT_EQ(sink.status, 200) << path;
    EXPECT_FALSE(sink.body.empty()) << path;
  }
}

TEST(OwnDataTest, WithoutASlashTheBrowserIsSentToTheDashboard) {
  TestProxy proxy;
  TestSink sink(proxy.io());
  proxy.Serve({.method = "GET", .path = "/dashboard"}, sink);
  EXPECT_EQ(sink.status, 308);
}

TEST(OwnDataTest, TheDashboardHasNoOtherFiles) {
  TestProxy proxy;
  for (const char* path : {"/dashboard/assets/other.js", "/dashboard/assets/index.html"}) {
    TestSink sink(proxy.io());
    proxy.Serve({.method = "GET", .path = path}, sink);
    EXPECT_EQ(sink.status, 404) << path;
  }
  for (const char* target : {"/dashboard/assets/..%2Findex.html", "/dashboard/assets/a/b",
                             "/dashboard/other", "/dashboard/assets/", "/v1/dashboards"}) {
    EXPECT_FALSE(FindRoute("GET", target).match) << target;
  }
}

TEST(OwnDataTest, TheDashboardIsOpenToEverybody) {
  for (const char* target : {"/dashboard", "/dashboard/", "/dashboard/assets/dashboard.js"}) {
    EXPECT_EQ(FindRoute("GET", target).match->access, access::Access::kOpen) << target;
    EXPECT_EQ(FindRoute("POST", target).refusal.status, 405) << target;
  }
}

}  // namespace
}  // namespace kvgate::proxy::handler
