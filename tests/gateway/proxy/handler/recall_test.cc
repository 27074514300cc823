#include "gateway/proxy/handler/recall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gateway/local/embeddings/published_provider.h"
#include "tests/gateway/local/embeddings/made_provider.h"
#include "tests/gateway/proxy/provider/asked_upstream.h"

namespace kvgate::proxy::handler {
namespace {

using nlohmann::json;
using session::retrieval::Meaning;
using test::Http;
using test::Peer;
using test::ScriptedUpstream;
using test::TestProxy;
using test::TestSink;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// An upstream whose model takes texts of at most `bytes_max` bytes.
class RecallTest : public ::testing::Test {
 protected:
  std::string Answer(const std::string& request) {
    const auto body = json::parse(request.substr(request.find("\r\n\r\n") + 4));
    json data = json::array();
    for (const json& text : body["input"]) {
      const auto size = text.get<std::string>().size();
      if (size > bytes_max) return Http(refusal, R"({"error":{"message":"too long"}})");
      data.push_back({{"index", data.size()}, {"embedding", {size, 100}}});
    }
    return Http("200 OK", json{{"object", "list"}, {"data", data}}.dump());
  }
  config::UpstreamConfig Config() {
    ::setenv("KVGATE_TEST_VECTOR_KEY", "sk-operator", 1);
    config::UpstreamConfig config;
    config.name = "up";
    config.base_url = fmt::format("http://127.0.0.1:{}/v1", server.port());
    config.models = {"vectors-*"};
    config.api_key_env = "KVGATE_TEST_VECTOR_KEY";
    return config;
  }
  // Of a request by a caller with a key of its own.
  Result<std::vector<Meaning>> Ask(std::vector<std::string> texts) {
    TestProxy proxy({.targets = {.upstreams = {Config()}}});
    TestSink sink(proxy.io());
    const test::TestRequest sample{.body = "{}", .fields = {{"authorization", "Bearer sk-caller"}}};
    const auto received = proxy.Open(sample, sink);
    VectorRequests vectors(*received, {.model = "vectors-1", .session = "k"});
    return proxy.Run(vectors.Ask(std::move(texts)));
  }

  size_t bytes_max = 100;
  std::string refusal = "400 Bad Request";
  std::mutex mutex;
  std::vector<std::string> requests;
  ScriptedUpstream server{[this](Peer& peer, int) {
    for (std::string request = peer.ReadRequest(); !request.empty(); request = peer.ReadRequest()) {
      const std::lock_guard lock(mutex);
      requests.push_back(request);
      peer.Send(Answer(request));
    }
  }};
};

TEST_F(RecallTest, AllTextsGoInOneRequestWithTheOperatorsKey) {
  const auto made = Ask({"one", "three"});
  ASSERT_TRUE(made) << made.error().detail;
  ASSERT_THAT(*made, SizeIs(2));
  EXPECT_EQ((*made)[0].bytes(), Meaning::Of(std::vector<float>{3, 100}).bytes());
  EXPECT_EQ((*made)[1].bytes(), Meaning::Of(std::vector<float>{5, 100}).bytes());
  ASSERT_THAT(requests, SizeIs(1));
  EXPECT_THAT(requests[0], AllOf(HasSubstr("POST /v1/embeddings"), HasSubstr("sk-operator"),
                                 Not(HasSubstr("sk-caller")), Not(HasSubstr("x-kvgate"))));
}

TEST_F(RecallTest, ATextThatIsTooLongIsCutAndTheOthersStay) {
  const auto made = Ask({"one", std::string(150, 'x'), "three"});
  ASSERT_TRUE(made) << made.error().detail;
  ASSERT_THAT(*made, SizeIs(3));
  EXPECT_EQ((*made)[0].bytes(), Meaning::Of(std::vector<float>{3, 100}).bytes());
  EXPECT_EQ((*made)[1].bytes(), Meaning::Of(std::vector<float>{75, 100}).bytes());
  EXPECT_EQ((*made)[2].bytes(), Meaning::Of(std::vector<float>{5, 100}).bytes());
}

TEST_F(RecallTest, OneThatIsRefusedInAnyLengthHasNone) {
  const auto made = Ask({"one", std::string(500, 'x')});
  ASSERT_TRUE(made) << made.error().detail;
  EXPECT_TRUE((*made)[0].is_known());
  EXPECT_FALSE((*made)[1].is_known());
}

TEST_F(RecallTest, AModelThatRefusesAllOfThemFails) {
  bytes_max = 0;
  EXPECT_FALSE(Ask({"one", "two"}));
}

TEST_F(RecallTest, OtherFailuresAreNotTriedAgain) {
  bytes_max = 0;
  refusal = "500 Oops";
  const auto made = Ask({"one", "two"});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().detail, HasSubstr("500"));
  EXPECT_THAT(requests, SizeIs(1));
}

TEST_F(RecallTest, WhatIsPrivateMayGoToTheLocalModelAlone) {
  local::embeddings::PublishedProvider published;
  TestProxy::Setup setup{.targets = {.upstreams = {Config()}}};
  setup.options.embeddings = &published;
  TestProxy proxy(setup);
  TestSink sink(proxy.io());
  const auto may = [&](std::string_view model, bool is_private) {
    const test::TestRequest sample{.body = "{}",
                                   .fields = {{"x-kvgate-private", is_private ? "1" : "0"}}};
    return MayAskFor(*proxy.Open(sample, sink), model);
  };
  EXPECT_FALSE(may("vectors-1", false));  // the local model is being loaded
  published.Publish(std::move(local::embeddings::MadeProvider().provider));
  EXPECT_TRUE(may("vectors-1", false));
  EXPECT_FALSE(may("vectors-1", true));
  EXPECT_TRUE(may("made", false));
  EXPECT_TRUE(may("made", true));
  EXPECT_FALSE(may("nobodys", false));
}

}  // namespace
}  // namespace kvgate::proxy::handler
