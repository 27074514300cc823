#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/digest.h"
#include "tests/gateway/proxy/test_proxy.h"
#include "tests/gateway/upstream/model_provider.h"

namespace kvgate::proxy::handler {
namespace {

using test::ModelProvider;
using test::TestProxy;
using test::TestRequest;
using test::TestSink;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string Chat(std::string_view model) {
  return fmt::format(R"({{"model":"{}","messages":[{{"role":"user","content":"hi"}}]}})", model);
}

// A gateway that examines prompts, in front of two providers that must never be
// asked.
struct Explaining {
  explicit Explaining(std::vector<config::KeyConfig> keys = {})
      : proxy({.targets = {.upstreams = {openai.Config({"gpt-*"}), other.Config({"other-*"})},
                           .routes = {{.models = {"coder-*"}, .targets = {"other/other-1"}}},
                           .keys = std::move(keys)},
               .options = {.prompts = &prompts}}) {}
  ~Explaining() {
    EXPECT_THAT(openai.requests(), SizeIs(0));
    EXPECT_THAT(other.requests(), SizeIs(0));
  }
  // Asks for an explanation; returns the status, with the body in `body`.
  int Ask(std::string query, std::string asked,
          std::vector<std::pair<std::string, std::string>> fields = {}) {
    TestSink sink(proxy.io());
    proxy.Serve({.path = "/kvgate/v1/explain" + query,
                 .body = std::move(asked),
                 .fields = std::move(fields)},
                sink);
    body = sink.body;
    return sink.status;
  }

  ModelProvider openai{"openai"};
  ModelProvider other{"other"};
  service::Prompts prompts{prompt::Optimizer::Options{}};
  TestProxy proxy;
  std::string body;
};

TEST(ExplanationTest, ItNamesTheUpstreamThatWouldBeAsked) {
  Explaining gateway;
  EXPECT_EQ(gateway.Ask("", Chat("gpt-1")), 200);
  EXPECT_THAT(gateway.body, HasSubstr(R"("upstream":"openai")"));
  EXPECT_EQ(gateway.Ask("", Chat("coder-1")), 200);
  EXPECT_THAT(gateway.body, HasSubstr(R"("upstream":"other")")) << "its route says so";
  EXPECT_EQ(gateway.Ask("?upstream=openai", Chat("other-1")), 200);
  EXPECT_THAT(gateway.body, HasSubstr(R"("upstream":"openai")")) << "the caller says so";
  for (const char* const query : {"?upstream=local", ""}) {
    EXPECT_EQ(gateway.Ask(query, Chat("local")), 200);
    EXPECT_THAT(gateway.body, HasSubstr(R"("provider":"local")"));
  }
  EXPECT_EQ(
      gateway.Ask("?endpoint=messages", R"({"model":"nobodys","max_tokens":1,"messages":[]})"),
      200);
  EXPECT_THAT(gateway.body, HasSubstr(R"("provider":"local")")) << "no upstream serves it";
}

TEST(ExplanationTest, WhatCannotBeExplainedIsSaid) {
  Explaining gateway;
  EXPECT_EQ(gateway.Ask("?endpoint=embeddings", Chat("gpt-1")), 400);
  EXPECT_THAT(gateway.body, HasSubstr(R"("param":"endpoint")"));
  EXPECT_EQ(gateway.Ask("", "garbage"), 400);
  EXPECT_THAT(gateway.body, HasSubstr("not a request in JSON"));
  EXPECT_EQ(gateway.Ask("?upstream=nobody", Chat("gpt-1")), 404);
  TestProxy unexamined;
  TestSink sink(unexamined.io());
  unexamined.Serve({.path = "/kvgate/v1/explain", .body = Chat("gpt-1")}, sink);
  EXPECT_EQ(sink.status, 404);
}

TEST(ExplanationTest, ItCountsAgainstTheKeysLimits) {
  config::KeyConfig key;
  key.name = "team";
  key.sha256 = ToHex(ThreadSha256().Update("key").Finish().bytes);
  key.models = {"gpt-*"};
  key.requests_per_minute = 1;
  Explaining gateway({key});
  const std::vector<std::pair<std::string, std::string>> fields = {{"x-kvgate-key", "key"}};
  EXPECT_EQ(gateway.Ask("", Chat("other-1"), fields), 403);
  EXPECT_EQ(gateway.Ask("", R"({"messages":[]})", fields), 403) << "it names no model";
  EXPECT_EQ(gateway.Ask("", Chat("gpt-1"), fields), 200);
  EXPECT_EQ(gateway.Ask("", Chat("gpt-1"), fields), 429);
}

}  // namespace
}  // namespace kvgate::proxy::handler
