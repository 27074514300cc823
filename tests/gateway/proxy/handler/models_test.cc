#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "tests/gateway/proxy/provider/asked_upstream.h"

namespace kvgate::proxy::handler {
namespace {

using test::Http;
using test::Peer;
using test::ScriptedUpstream;
using test::TestProxy;
using test::TestSink;
using ::testing::HasSubstr;
using ::testing::Not;

// An upstream that lists these models, and counts how often it is asked.
struct Lister {
  explicit Lister(std::string name, std::string answer)
      : server([this, answer = std::move(answer)](Peer& peer, int) {
          for (std::string got = peer.ReadRequest(); !got.empty(); got = peer.ReadRequest()) {
            {
              const std::lock_guard lock(mutex);
              last = std::move(got);
            }
            ++num_asked;
            if (!peer.Send(answer)) return;
          }
        }) {
    config.name = std::move(name);
    config.base_url = server.url();
    config.breaker_failures = 0;
  }
  std::atomic<int> num_asked{0};
  std::mutex mutex;
  std::string last;
  config::UpstreamConfig config;
  ScriptedUpstream server;
};

std::string List(std::string_view ids) {
  return Http("200 OK", fmt::format(R"({{"object":"list","data":[{}]}})", ids));
}

std::string Get(TestProxy& proxy, std::string path, int status = 200,
                std::vector<std::pair<std::string, std::string>> fields = {}) {
  TestSink sink(proxy.io());
  proxy.Serve({.method = "GET", .path = std::move(path), .fields = std::move(fields)}, sink);
  EXPECT_EQ(sink.status, status) << sink.body;
  return sink.body;
}

TEST(ModelsTest, AListJoinsTheLocalModelAndThoseOfAllUpstreamsThatAnswer) {
  Lister one("one", List(R"({"id":"one-1","x":7})"));
  Lister two("two", List(R"({"id":"two-1"},{"id":"one-1","x":8})"));
  Lister broken("broken", Http("500 No", "{}"));
  Lister garbage("garbage", Http("200 OK", "<html>"));
  TestProxy proxy(
      {.targets = {.upstreams = {one.config, broken.config, garbage.config, two.config}}});
  const std::string list = Get(proxy, "/v1/models");
  EXPECT_THAT(list, HasSubstr("fake-model"));
  EXPECT_THAT(list, HasSubstr(R"({"id":"one-1","x":7})"));
  EXPECT_THAT(list, Not(HasSubstr(R"("x":8)"))) << "the first of one name counts";
  EXPECT_THAT(list, HasSubstr("two-1"));
  // Lists are asked for again only after some seconds; those that failed at
  // once.
  EXPECT_EQ(Get(proxy, "/v1/models"), list);
  EXPECT_EQ(one.num_asked.load(), 1);
  EXPECT_EQ(broken.num_asked.load(), 2);
}

TEST(ModelsTest, AKeySeesTheModelsThatItMayUse) {
  Lister one("one", List(R"({"id":"one-1"},{"id":"one-2"})"));
  config::KeyConfig key;
  key.name = "team";
  key.sha256 = ToHex(ThreadSha256().Update("gateway-key").Finish().bytes);
  key.models = {"one-2"};
  key.requests_per_minute = 1;
  TestProxy proxy({.targets = {.upstreams = {one.config}, .keys = {key}}});
  const std::string list = Get(proxy, "/v1/models", 200, {{"authorization", "Bearer gateway-key"}});
  EXPECT_THAT(list, HasSubstr("one-2"));
  EXPECT_THAT(list, Not(HasSubstr("one-1")));
  EXPECT_THAT(list, Not(HasSubstr("fake-model")));
  {
    const std::lock_guard lock(one.mutex);
    EXPECT_THAT(one.last, Not(HasSubstr("gateway-key")));
  }
  Get(proxy, "/v1/models", 429, {{"authorization", "Bearer gateway-key"}});
}

TEST(ModelsTest, AClientThatLeavesEndsTheAsking) {
  std::atomic<bool> is_ended{false};
  ScriptedUpstream silent([&](Peer& peer, int) {
    peer.ReadRequest();
    is_ended = peer.WaitForEnd(std::chrono::seconds(60));
  });
  config::UpstreamConfig config;
  config.name = "silent";
  config.base_url = silent.url();
  TestProxy proxy({.targets = {.upstreams = {config}}});
  TestSink sink(proxy.io());
  proxy.Serve({.method = "GET", .path = "/v1/models"}, sink, [&] { sink.Leave(); });
  EXPECT_EQ(sink.status, 0);
  EXPECT_TRUE(test::WaitUntil([&] { return is_ended.load(); }, "the upstream is let go"));
}

TEST(ModelsTest, OneModelIsTheLocalOneOrAnUpstreams) {
  Lister one("one", Http("200 OK", R"({"id":"one-1","from":"upstream"})"));
  TestProxy proxy({.targets = {.upstreams = {one.config}}});
  EXPECT_THAT(Get(proxy, "/v1/models/fake-model"), HasSubstr("fake-model"));
  EXPECT_EQ(one.num_asked.load(), 0);
  EXPECT_THAT(Get(proxy, "/v1/models/one-1"), HasSubstr("from"));
  TestProxy alone;
  EXPECT_THAT(Get(alone, "/v1/models"), HasSubstr("fake-model"));
  Get(alone, "/v1/models/one-1", 404);
}

TEST(ModelsTest, EmbeddingsTakeAnUpstream) {
  Lister one("one", Http("200 OK", R"({"object":"list","data":[]})"));
  TestProxy proxy({.targets = {.upstreams = {one.config}}});
  TestSink sink(proxy.io());
  proxy.Serve({.path = "/v1/embeddings", .body = R"({"model":"e","input":"x"})"}, sink);
  EXPECT_EQ(sink.status, 200);
  EXPECT_EQ(one.num_asked.load(), 1);
  TestProxy alone;
  TestSink refused(alone.io());
  alone.Serve({.path = "/v1/embeddings", .body = R"({"model":"e","input":"x"})"}, refused);
  EXPECT_EQ(refused.status, 404);
  EXPECT_THAT(refused.body, HasSubstr("no upstream"));
}

}  // namespace
}  // namespace kvgate::proxy::handler
