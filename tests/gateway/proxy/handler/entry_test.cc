#include "gateway/proxy/handler/entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/gateway/proxy/test_proxy.h"

namespace kvgate::proxy::handler {
namespace {

using ::testing::HasSubstr;

class EntryTest : public testing::Test {
 protected:
  static config::UpstreamConfig Upstream(bool forwards_unknown) {
    config::UpstreamConfig upstream;
    upstream.name = "one";
    upstream.base_url = "http://127.0.0.1:9/v1";
    upstream.forward_unknown = forwards_unknown;
    return upstream;
  }
  static config::KeyConfig Key() {
    config::KeyConfig key;
    key.name = "somebody";
    key.sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";  // "secret"
    return key;
  }
  static Entry Try(test::TestProxy& proxy, const test::TestRequest& request) {
    test::TestSink sink(proxy.io());
    const auto context = proxy.Open(request, sink);
    return Enter(*context, FindRoute(request.method, request.path));
  }
};

TEST_F(EntryTest, AKnownPathIsAnswered) {
  test::TestProxy proxy;
  const Entry entry = Try(proxy, {.method = "GET", .path = "/health"});
  ASSERT_TRUE(entry.match);
  EXPECT_EQ(entry.match->place.route, Route::kHealth);
  EXPECT_TRUE(entry.is_let_in);
}

TEST_F(EntryTest, WhoHasNoKeyIsNotLetIn) {
  test::TestProxy proxy({.targets = {.keys = {Key()}}});
  const Entry refused = Try(proxy, {.path = "/v1/chat/completions"});
  EXPECT_FALSE(refused.match);
  EXPECT_FALSE(refused.is_let_in);
  EXPECT_EQ(refused.refused_as(), "refused");
  EXPECT_EQ(refused.refusal.status, 401);
  const Entry entry =
      Try(proxy, {.path = "/v1/chat/completions", .fields = {{"Authorization", "Bearer secret"}}});
  EXPECT_TRUE(entry.match) << entry.refusal.body;
  // A path that nobody knows tells a stranger nothing.
  EXPECT_EQ(Try(proxy, {.path = "/v1/nothing"}).refusal.status, 401);
}

TEST_F(EntryTest, AnUnknownPathGoesToAnUpstreamThatTakesIt) {
  for (const bool forwards : {false, true}) {
    test::TestProxy proxy({.targets = {.upstreams = {Upstream(forwards)}}});
    const Entry entry = Try(proxy, {.path = "/v1/nothing"});
    EXPECT_EQ(entry.match.has_value(), forwards);
    EXPECT_TRUE(entry.is_let_in);
    if (!forwards) {
      EXPECT_EQ(entry.refusal.status, 404);
    }
    EXPECT_EQ(Try(proxy, {.path = "/elsewhere"}).refused_as(), "unknown");
  }
}

TEST_F(EntryTest, AMethodThatAPathHasNotIsRefusedByName) {
  test::TestProxy proxy;
  const Entry entry = Try(proxy, {.method = "PUT", .path = "/v1/chat/completions"});
  EXPECT_EQ(entry.refusal.status, 405);
}

}  // namespace
}  // namespace kvgate::proxy::handler
