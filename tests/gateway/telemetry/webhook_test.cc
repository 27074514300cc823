#include "gateway/telemetry/webhook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/digest.h"
#include "tests/gateway/telemetry/webhook_receiver.h"
#include "tests/wait_until.h"

namespace kvgate::telemetry {
namespace {

using test::WaitUntil;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

std::string Environment(const char* name) {
  return std::string_view(name) == "HOOK_SECRET" ? "the secret" : "";
}

config::BudgetsConfig ConfigFor(const std::string& url) {
  config::BudgetsConfig config;
  config.webhook = url;
  config.webhook_secret_env = "HOOK_SECRET";
  return config;
}

WebhookOptions Quick() { return {.pause = 1ms}; }

std::unique_ptr<Webhook> Open(const config::BudgetsConfig& config, WebhookCounts& counts,
                              const WebhookOptions& options = Quick()) {
  auto opened = Webhook::Open(config, counts, options, Environment);
  EXPECT_TRUE(opened) << opened.error().detail;
  return opened ? std::move(*opened) : nullptr;
}

TEST(WebhookTest, DocumentsArriveSignedAndInTheirOrder) {
  const WebhookReceiver receiver({200});
  WebhookCounts counts;
  const auto webhook = Open(ConfigFor(receiver.url()), counts);
  webhook->Post(R"({"n":1})");
  webhook->Post(R"({"n":2})");
  ASSERT_TRUE(WaitUntil([&] { return counts.num_sent == 2; }, "a report is taken"));
  const auto requests = receiver.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].body, R"({"n":1})");
  EXPECT_EQ(requests[1].body, R"({"n":2})");
  EXPECT_THAT(requests[0].head, HasSubstr("POST /hook/secret HTTP/1.1\r\n"));
  EXPECT_THAT(requests[0].head, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(requests[0].head,
              HasSubstr("X-Kvgate-Signature: sha256=" +
                        ToHex(HmacSha256("the secret", R"({"n":1})").bytes) + "\r\n"));
}

TEST(WebhookTest, WithoutASecretNothingIsSigned) {
  const WebhookReceiver receiver({204});
  WebhookCounts counts;
  config::BudgetsConfig config = ConfigFor(receiver.url());
  config.webhook_secret_env = "";
  const auto webhook = Open(config, counts);
  webhook->Post("{}");
  ASSERT_TRUE(WaitUntil([&] { return counts.num_sent == 1; }, "a report is taken"));
  EXPECT_THAT(receiver.requests()[0].head, Not(HasSubstr("Signature")));
}

TEST(WebhookTest, WhatMaySucceedLaterIsTriedAgain) {
  const WebhookReceiver receiver({503, 429, 408, 200});
  WebhookCounts counts;
  const auto webhook = Open(ConfigFor(receiver.url()), counts);
  webhook->Post("{}");
  ASSERT_TRUE(WaitUntil([&] { return counts.num_sent == 1; }, "a report is taken"));
  EXPECT_EQ(receiver.requests().size(), 4u);
  EXPECT_EQ(counts.num_failed, 0u);
}

TEST(WebhookTest, AReceiverThatStaysDownIsGivenUp) {
  const WebhookReceiver receiver({500});
  WebhookCounts counts;
  const auto webhook = Open(ConfigFor(receiver.url()), counts);
  webhook->Post("{}");
  ASSERT_TRUE(WaitUntil([&] { return counts.num_failed == 1; }, "a report is given up"));
  EXPECT_EQ(receiver.requests().size(), 4u);
}

TEST(WebhookTest, ARefusalOrARedirectionIsNotTriedAgain) {
  for (const int status : {400, 401, 404, 302}) {
    const WebhookReceiver receiver({status});
    WebhookCounts counts;
    const auto webhook = Open(ConfigFor(receiver.url()), counts);
    webhook->Post("{}");
    ASSERT_TRUE(WaitUntil([&] { return counts.num_failed == 1; }, "a report is given up"))
        << status;
    EXPECT_EQ(receiver.requests().size(), 1u) << status;
  }
}

TEST(WebhookTest, WhatDoesNotFitIsDroppedWhileOneHangs) {
  const WebhookReceiver receiver({WebhookReceiver::kHang});
  WebhookCounts counts;
  {
    const auto webhook =
        Open(ConfigFor(receiver.url()), counts, {.queue_max = 3, .pause = 1ms, .grace = 0ms});
    webhook->Post("{}");
    ASSERT_TRUE(WaitUntil([&] { return receiver.requests().size() == 1; }, "the reports arrive"));
    for (int i = 0; i < 5; ++i) webhook->Post("{}");
    EXPECT_EQ(counts.num_dropped, 2u);
  }  // it ends without waiting for the answer
  EXPECT_EQ(counts.num_sent, 0u);
}

TEST(WebhookTest, WhatWaitsAtTheEndIsSent) {
  const WebhookReceiver receiver({200});
  WebhookCounts counts;
  Open(ConfigFor(receiver.url()), counts)->Post("{}");
  EXPECT_EQ(counts.num_sent, 1u);
}

TEST(WebhookTest, ASecretThatIsMissingIsNamed) {
  WebhookCounts counts;
  config::BudgetsConfig config = ConfigFor("http://127.0.0.1:9");
  config.webhook_secret_env = "UNSET";
  const auto opened = Webhook::Open(config, counts, Quick(), Environment);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().detail, HasSubstr("webhook_secret_env: UNSET is not set"));
}

}  // namespace
}  // namespace kvgate::telemetry
