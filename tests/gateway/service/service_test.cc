#include "gateway/service/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/gateway/fakes.h"

namespace kvgate::service {
namespace {

using protocol::Dialect;
using testing::Gateway;
using ::testing::HasSubstr;

constexpr std::string_view kChat =
    R"({"model":"local","messages":[{"role":"user","content":"hi"}]})";

Service::StartArgs Args(std::string_view body = kChat) {
  return {.dialect = Dialect::kChatCompletions,
          .body = body,
          .credential = {},
          .request_id = "r",
          .wake = {}};
}

std::string Finish(Completion& completion) {
  std::string bytes;
  while (true) {
    Completion::Output output = completion.Next();
    bytes += output.bytes;
    if (output.finished) return bytes;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(ServiceTest, ACompletionIsOneBodyOrAStreamOfTheSameText) {
  Gateway gateway;
  const auto whole = gateway.service.Start(Args());
  ASSERT_TRUE(whole);
  EXPECT_FALSE((*whole)->streaming());
  const auto body = nlohmann::json::parse(Finish(**whole));
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello world!");
  EXPECT_EQ(body["model"], "fake-model");
  const auto stream = gateway.service.Start(
      Args(R"({"model":"local","stream":true,"messages":[{"role":"user","content":"hi"}]})"));
  ASSERT_TRUE(stream);
  EXPECT_TRUE((*stream)->streaming());
  const std::string all = Finish(**stream);
  EXPECT_TRUE(all.starts_with("data: "));
  EXPECT_LT(all.find("\"role\":\"assistant\""), all.find("Hello"));
  EXPECT_TRUE(all.ends_with("data: [DONE]\n\n"));
}

TEST(ServiceTest, AFinishedCompletionTellsItsTokensForTheLimitsOfAKey) {
  Gateway gateway;
  const auto whole = gateway.service.Start(Args());
  ASSERT_TRUE(whole);
  EXPECT_EQ((*whole)->num_tokens(), 0u);
  const auto body = nlohmann::json::parse(Finish(**whole));
  EXPECT_GT((*whole)->num_tokens(), 0u);
  EXPECT_EQ((*whole)->num_tokens(), body["usage"]["total_tokens"]);
}

TEST(ServiceTest, AStreamThatFailsBeforeItBeganHasAnErrorAndAfterwardsAnEvent) {
  const Error error = MakeError(ErrorCode::kOverloaded, "engine", "no KV blocks left");
  Gateway gateway({.pieces = {}, .reason = engine::FinishReason::kError, .error = error});
  const Service::StartArgs args =
      Args(R"({"model":"local","stream":true,"messages":[{"role":"user","content":"hi"}]})");
  for (const bool begun : {false, true}) {
    const auto stream = gateway.service.Start(args);
    ASSERT_TRUE(stream);
    if (begun) {
      EXPECT_THAT((*stream)->Begin(), HasSubstr("\"role\":\"assistant\""));
    }
    Completion::Output output;
    while (!output.finished) output = (*stream)->Next();
    EXPECT_EQ(output.error.has_value(), !begun);
    EXPECT_EQ(output.bytes.find("no KV blocks left") != std::string::npos, begun);
  }
}

TEST(ServiceTest, AnUnknownModelIsNotFoundByName) {
  Gateway gateway;
  const auto started = gateway.service.Start(
      Args(R"({"model":"gpt-9","messages":[{"role":"user","content":"hi"}]})"));
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(started.error().field, "model");
  EXPECT_THAT(started.error().detail, HasSubstr("gpt-9"));
}

TEST(ServiceTest, IsNotReadyBeforeTheModelAndWhileDraining) {
  metrics::Registry registry;
  metrics::GatewayMetrics metrics(registry);
  Service loading({.registry = registry, .metrics = metrics});
  EXPECT_FALSE(loading.ready());
  EXPECT_EQ(loading.Start(Args()).error().code, ErrorCode::kUnavailable);
  Gateway gateway;
  EXPECT_TRUE(gateway.service.ready());
  gateway.service.BeginDrain();
  EXPECT_FALSE(gateway.service.ready());
  EXPECT_EQ(gateway.service.Start(Args()).error().code, ErrorCode::kUnavailable);
}

TEST(ServiceTest, CredentialsSeparateTenantsAndAreNotKept) {
  EXPECT_EQ(TenantOf(""), "");
  EXPECT_NE(TenantOf("Bearer a"), TenantOf("Bearer b"));
  EXPECT_EQ(TenantOf("Bearer a"), TenantOf("Bearer a"));
  EXPECT_EQ(TenantOf("Bearer secret").find("secret"), std::string::npos);
  Gateway gateway;
  Service::StartArgs args = Args();
  args.credential = "Bearer a";
  ASSERT_TRUE(gateway.service.Start(args));
  EXPECT_EQ(gateway.engine.last_request().cache_salt, TenantOf("Bearer a"));
}

TEST(ServiceTest, ExplainingAsksForTheHashOfTheLogits) {
  Gateway gateway({.num_device_tokens = 2, .num_disk_tokens = 1});
  Service::StartArgs args = Args();
  args.explain = true;
  const auto completion = gateway.service.Start(args);
  ASSERT_TRUE(completion);
  EXPECT_TRUE(gateway.engine.last_request().hash_logits);
  const auto body = nlohmann::json::parse(Finish(**completion));
  EXPECT_EQ(body["kvgate"]["logits_hash"], "0000000000abcdef");
  EXPECT_EQ(body["kvgate"]["tiers"]["device"], 2);
  EXPECT_EQ(body["kvgate"]["request_id"], "r");
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
}

TEST(ServiceTest, ACompletionThatIsDroppedStopsTheEngine) {
  Gateway gateway({.first_delay = std::chrono::milliseconds(60'000)});
  auto completion = gateway.service.Start(Args());
  ASSERT_TRUE(completion);
  EXPECT_EQ(gateway.metrics.requests_active.value(), 1);
  completion->reset();
  for (int i = 0; i < 2000 && gateway.engine.num_running() > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(gateway.engine.num_cancelled(), 1);
  EXPECT_EQ(gateway.metrics.requests_active.value(), 0);
}

}  // namespace
}  // namespace kvgate::service
