#include "gateway/proxy/handler/embedding/local_embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/local/embeddings/published_provider.h"
#include "tests/gateway/local/embeddings/made_provider.h"
#include "tests/gateway/proxy/provider/asked_upstream.h"

namespace kvgate::proxy::handler::embedding {
namespace {

using Json = nlohmann::json;
using local::embeddings::MadeProvider;
using local::embeddings::PublishedProvider;
using test::Http;
using test::Peer;
using test::ScriptedUpstream;
using test::TestProxy;
using test::TestSink;
using ::testing::HasSubstr;

class LocalEmbeddingsTest : public ::testing::Test {
 protected:
  void Publish(const embed::EmbedderOptions& options = {}) {
    published_.Publish(std::move(MadeProvider(options).provider));
  }
  TestProxy::Setup Local() {
    TestProxy::Setup setup;
    setup.options.embeddings = &published_;
    return setup;
  }
  static Json Post(TestProxy& proxy, const std::string& body, int status = 200,
                   const std::string& path = "/v1/embeddings") {
    TestSink sink(proxy.io());
    proxy.Serve({.path = path, .body = body}, sink);
    EXPECT_EQ(sink.status, status) << sink.body;
    return Json::parse(sink.body, nullptr, false);
  }

  PublishedProvider published_;
};

TEST_F(LocalEmbeddingsTest, AnswersInOpenAisForm) {
  Publish();
  TestProxy proxy(Local());
  const Json answer =
      Post(proxy, R"({"model":"local","input":["baba","bebe bibi"],"dimensions":16})");
  EXPECT_EQ(answer["object"], "list");
  EXPECT_EQ(answer["model"], "local");
  ASSERT_EQ(answer["data"].size(), 2u);
  EXPECT_EQ(answer["data"][1]["index"], 1);
  EXPECT_EQ(answer["data"][1]["embedding"].size(), 16u);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"]);
  EXPECT_EQ(Post(proxy, R"({"input":"baba"})")["model"], "made");  // none was named
}

TEST_F(LocalEmbeddingsTest, ErrorsNameTheField) {
  Publish();
  TestProxy proxy(Local());
  const auto param = [&](const std::string& body) {
    return Post(proxy, body, 400)["error"]["param"];
  };
  EXPECT_EQ(param(R"({"model":"made"})"), "input");
  EXPECT_EQ(param(R"({"model":"made","input":["a",""]})"), "input[1]");
  EXPECT_EQ(param(R"({"model":"made","input":"a","dimensions":65})"), "dimensions");
  EXPECT_EQ(param(R"({"model":"made","input":[[1],[99999]]})"), "input[1]");
  EXPECT_EQ(Post(proxy, R"({"model":"gone","input":"a"})", 404)["error"]["param"], "model");
}

TEST_F(LocalEmbeddingsTest, WhileTheModelLoadsAndWhileTheServerEndsItIsUnavailable) {
  TestProxy proxy(Local());
  EXPECT_THAT(Post(proxy, R"({"input":"a"})", 503)["error"]["message"].get<std::string>(),
              HasSubstr("still being loaded"));
  Publish();
  Post(proxy, R"({"input":"a"})");
  published_.BeginDrain();
  EXPECT_THAT(Post(proxy, R"({"input":"a"})", 503)["error"]["message"].get<std::string>(),
              HasSubstr("shutting down"));
}

TEST_F(LocalEmbeddingsTest, OtherModelsGoToTheUpstreamAndItsOwnStay) {
  Publish();
  std::atomic<int> num_asked{0};
  ScriptedUpstream server([&](Peer& peer, int) {
    while (!peer.ReadRequest().empty()) {
      ++num_asked;
      if (!peer.Send(Http("200 OK", R"({"object":"list","from":"upstream"})"))) return;
    }
  });
  TestProxy::Setup setup = Local();
  config::UpstreamConfig config;
  config.name = "one";
  config.base_url = server.url();
  setup.targets.upstreams = {config};
  TestProxy proxy(setup);
  EXPECT_EQ(Post(proxy, R"({"model":"text-embedding-3","input":"a"})")["from"], "upstream");
  EXPECT_EQ(num_asked, 1);
  EXPECT_EQ(Post(proxy, R"({"model":"made","input":"a"})")["model"], "made");
  EXPECT_EQ(Post(proxy, R"({"input":"a"})")["model"], "made");
  EXPECT_EQ(num_asked, 1);
  TestSink sink(proxy.io());
  proxy.Serve({.path = "/v1/embeddings",
               .body = R"({"model":"made","input":"a"})",
               .fields = {{"x-kvgate-upstream", "one"}}},
              sink);
  EXPECT_EQ(num_asked, 2);
}

TEST_F(LocalEmbeddingsTest, AFullQueueIsRefusedWithATimeToTryAgain) {
  Publish({.queue_tokens_max = 2});
  TestProxy proxy(Local());
  EXPECT_THAT(Post(proxy, R"({"input":"a"})", 503)["error"]["message"].get<std::string>(),
              HasSubstr("try again later"));
}

TEST_F(LocalEmbeddingsTest, AClientThatLeavesAndAServerThatEndsGiveUpAPlace) {
  Publish();
  TestProxy proxy(Local());
  Json body = {{"model", "made"}, {"input", Json::array()}};
  for (int i = 0; i < 2048; ++i) body["input"].push_back("baba bebe bibi bobo bubu baba bebe bibi");
  for (const bool ends : {false, true}) {
    TestSink sink(proxy.io());
    proxy.Serve({.path = "/v1/embeddings", .body = body.dump()}, sink,
                [&] { ends ? sink.End() : sink.Leave(); });
    EXPECT_EQ(sink.status, ends ? 503 : 0);
    EXPECT_EQ(published_.get()->embedder().Stats().num_waiting, 0u);
  }
}

}  // namespace
}  // namespace kvgate::proxy::handler::embedding
