#include "gateway/service/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/dialect/reply_encoders.h"
#include "tests/gateway/fakes.h"
#include "tests/wait_until.h"

namespace kvgate::service {

using local::TenantOf;
using session::Answer;
using session::AnswerHook;

namespace {

using dialect::form::Dialect;
using test::Gateway;
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
  const auto has_ended = [&] {
    const Completion::Output output = completion.Next();
    bytes += output.bytes;
    if (!output.finished && output.completed) completion.RunHooks();
    return output.finished;
  };
  EXPECT_TRUE(test::WaitUntil(has_ended, "the answer ends"));
  return bytes;
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
    EXPECT_TRUE(test::WaitUntil(
        [&] {
          output = (*stream)->Next();
          return output.finished;
        },
        "the stream ends"));
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
  EXPECT_TRUE(
      test::WaitUntil([&] { return gateway.engine.num_running() == 0; }, "the engine is idle"));
  EXPECT_EQ(gateway.engine.num_cancelled(), 1);
  EXPECT_EQ(gateway.metrics.requests_active.value(), 0);
}

// --- hooks ------------------------------------------------------------------------------------

// ScriptedStream gives a provider's events all at once.
class ScriptedStream final : public local::EventStream {
 public:
  explicit ScriptedStream(std::vector<dialect::form::CompletionEvent> events)
      : events_(std::move(events)) {}
  std::vector<dialect::form::CompletionEvent> Take() override { return std::exchange(events_, {}); }
  void Cancel() override {}

 private:
  std::vector<dialect::form::CompletionEvent> events_;
};

struct HookedAnswer {
  std::string bytes;
  std::optional<Error> error;
};

HookedAnswer RunHooked(bool streaming, std::vector<AnswerHook> hooks,
                       std::optional<Error> failure = {}) {
  metrics::Registry registry;
  metrics::GatewayMetrics metrics(registry);
  const dialect::reply::ReplyOptions options{.request_id = "r", .stream = streaming};
  Completion completion(
      {.stream = std::make_unique<ScriptedStream>(std::vector<dialect::form::CompletionEvent>{
           dialect::form::DeltaEvent{.text = "He"}, dialect::form::DeltaEvent{.text = "llo"},
           dialect::form::FinishEvent{.error = std::move(failure)}}),
       .encoder = dialect::MakeReplyEncoder(options),
       .streaming = streaming,
       .metrics = metrics,
       .record = std::make_unique<LocalRecord>(LocalRecord::Args{}),
       .hooks = std::move(hooks),
       .must_keep = true});
  HookedAnswer answer;
  const auto has_ended = [&] {
    const Completion::Output output = completion.Next();
    answer.bytes += output.bytes;
    if (output.completed) completion.RunHooks();
    answer.error = output.error;
    return output.finished;
  };
  EXPECT_TRUE(test::WaitUntil(has_ended, "the answer ends"));
  return answer;
}

TEST(AnswerHookTest, SeesTheWholeAnswerBeforeTheClientSeesItsEnd) {
  for (const bool streaming : {false, true}) {
    std::string seen;
    const AnswerHook hook = [&](const Answer& answer) -> Result<void> {
      seen += answer.choices[0].ToMessage().content;
      return {};
    };
    const HookedAnswer answer = RunHooked(streaming, {hook, hook});
    EXPECT_EQ(seen, "HelloHello");
    EXPECT_FALSE(answer.error);
    EXPECT_THAT(answer.bytes, HasSubstr(streaming ? "[DONE]" : "Hello"));
  }
}

TEST(AnswerHookTest, ThatFailsIsTheAnswersEnd) {
  const AnswerHook hook = [](const Answer&) -> Result<void> {
    return MakeError(ErrorCode::kUnavailable, "test", "the disk is full");
  };
  bool called = false;
  const AnswerHook next = [&](const Answer&) -> Result<void> {
    called = true;
    return {};
  };
  const HookedAnswer whole = RunHooked(false, {hook, next});
  ASSERT_TRUE(whole.error);
  EXPECT_EQ(whole.error->detail, "the disk is full");
  EXPECT_EQ(whole.bytes, "");
  const HookedAnswer stream = RunHooked(true, {hook, next});
  EXPECT_THAT(stream.bytes, HasSubstr("the disk is full"));
  EXPECT_EQ(stream.bytes.find("[DONE]"), std::string::npos);
  EXPECT_FALSE(called);
}

TEST(AnswerHookTest, IsNotCalledForAnAnswerThatFailed) {
  bool called = false;
  const AnswerHook hook = [&](const Answer&) -> Result<void> {
    called = true;
    return {};
  };
  const Error failure = MakeError(ErrorCode::kCancelled, "engine", "stopped");
  EXPECT_TRUE(RunHooked(false, {hook}, failure).error);
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace kvgate::service
