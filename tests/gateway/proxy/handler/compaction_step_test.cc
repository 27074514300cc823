#include "gateway/proxy/handler/compaction_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/seal.h"
#include "tests/gateway/proxy/test_proxy.h"

namespace kvgate::proxy::handler {
namespace {

using nlohmann::json;
using test::TestProxy;
using test::TestSink;
using ::testing::HasSubstr;

class CompactionStepTest : public ::testing::Test {
 protected:
  TestSink& Ask(const std::string& path, const json& body) {
    sink_ = std::make_unique<TestSink>(proxy_.io());
    proxy_.Serve({.path = path, .body = body.dump()}, *sink_);
    return *sink_;
  }

  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  TestProxy proxy_{{.options = {.keyring = ring_.get()}}};
  std::unique_ptr<TestSink> sink_;
};

const json kAsking = {
    {"model", "local"},
    {"input",
     {{{"role", "user"}, {"content", "Mend the parser."}}, {{"type", "compaction_trigger"}}}}};

TEST_F(CompactionStepTest, TheLocalEngineWritesTheSummaryAndReadsItAgain) {
  const json made = json::parse(Ask("/v1/responses", kAsking).body);
  ASSERT_EQ(sink_->status, 200) << made;
  EXPECT_THAT(sink_->compaction, HasSubstr("done;before="));
  ASSERT_EQ(made["output"].size(), 1u) << made;
  json next = {{"model", "local"}, {"input", made["output"]}};
  next["input"].push_back({{"role", "user"}, {"content", "Go on."}});
  ASSERT_EQ(Ask("/v1/responses", next).status, 200) << sink_->body;
  std::string prompt;
  for (const TokenId token : proxy_.gateway.engine.last_request().prompt) {
    prompt += static_cast<char>(token);
  }
  EXPECT_THAT(prompt, HasSubstr("Hello world!\n</summary>"));
}

TEST_F(CompactionStepTest, ThePathAnswersWithAnObjectOfItsOwn) {
  const json made = json::parse(Ask("/v1/responses/compact", kAsking).body);
  EXPECT_EQ(made["object"], "response.compaction") << made;
  EXPECT_EQ(made["output"].size(), 2u);
}

TEST_F(CompactionStepTest, AnItemThatDoesNotOpenIsRefusedByItsPlace) {
  const json body = {{"model", "local"},
                     {"input",
                      {{{"type", "compaction"}, {"encrypted_content", "kvg1.AAAA"}},
                       {{"role", "user"}, {"content", "Go on."}}}}};
  EXPECT_EQ(Ask("/v1/responses", body).status, 400);
  EXPECT_EQ(json::parse(sink_->body)["error"]["param"], "input[0].encrypted_content");
}

TEST(CompactionStep, AClientThatLeavesEndsTheSummary) {
  const auto ring = Keyring::Generate();
  TestProxy proxy({.script = {.piece_delay = std::chrono::milliseconds(10), .forever = true},
                   .options = {.keyring = ring.get()}});
  TestSink sink(proxy.io());
  boost::asio::steady_timer timer(proxy.io(), std::chrono::milliseconds(100));
  timer.async_wait([&](const boost::system::error_code&) { sink.Leave(); });
  proxy.Serve({.path = "/v1/responses", .body = kAsking.dump()}, sink);
  EXPECT_EQ(sink.status, 0) << sink.body;
}

TEST(CompactionStep, WithoutASecretNoneAreMade) {
  TestProxy proxy;
  TestSink sink(proxy.io());
  proxy.Serve({.path = "/v1/responses", .body = kAsking.dump()}, sink);
  EXPECT_EQ(sink.status, 400) << sink.body;
}

}  // namespace
}  // namespace kvgate::proxy::handler
