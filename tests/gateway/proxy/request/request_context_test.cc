#include "gateway/proxy/request/request_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/digest.h"
#include "tests/gateway/proxy/test_proxy.h"
#include "tests/gateway/proxy/work/busy_threads.h"

namespace kvgate::proxy::request {
namespace {

using test::TestProxy;
using test::TestRequest;
using test::TestSink;
using ::testing::HasSubstr;

constexpr std::string_view kBody =
    R"({"model":"gpt-1","messages":[{"role":"user","content":"hello there"}]})";

// A key whose text is "key".
config::KeyConfig Key() {
  config::KeyConfig key;
  key.name = "team";
  key.sha256 = ToHex(ThreadSha256().Update("key").Finish().bytes);
  return key;
}

TestRequest Asked(std::string path, std::string body = std::string(kBody)) {
  return {.path = std::move(path), .body = std::move(body), .fields = {{"X-Kvgate-Key", "key"}}};
}

uint64_t NumCounted(TestProxy& proxy, std::string_view route, std::string_view status) {
  return proxy.gateway.metrics.requests.With({route, status}).value();
}

TEST(RequestContextTest, TheModelIsThePathsOrTheBodys) {
  TestProxy proxy;
  TestSink sink(proxy.io());
  const TestRequest chat = Asked("/v1/chat/completions");
  const auto by_body = proxy.Open(chat, sink);
  ASSERT_TRUE(proxy.Run(by_body->Scan()));
  EXPECT_EQ(by_body->model(), "gpt-1");
  EXPECT_EQ(by_body->kind().endpoint, dialect::form::Endpoint::kChatCompletions);
  const TestRequest one{.method = "GET", .path = "/v1/models/org%2Fname?x=1"};
  const auto by_path = proxy.Open(one, sink);
  ASSERT_TRUE(proxy.Run(by_path->Scan()));
  EXPECT_EQ(by_path->model(), "org/name");
}

TEST(RequestContextTest, APromptIsRecognizedOnce) {
  service::Prompts prompts{prompt::Optimizer::Options{}};
  TestProxy proxy({.options = {.prompts = &prompts}});
  TestSink sink(proxy.io());
  const TestRequest ask = Asked("/v1/chat/completions");
  const auto request = proxy.Open(ask, sink);
  ASSERT_TRUE(proxy.Run(request->Scan()));
  EXPECT_EQ(request->layout(), nullptr);
  const auto known = proxy.Run(request->Recognize());
  ASSERT_TRUE(known);
  EXPECT_GT(known->num_tokens, 0);
  ASSERT_NE(request->layout(), nullptr);
  const auto* const layout = request->layout();
  request->body().bytes() = "another body";
  EXPECT_EQ(proxy.Run(request->Recognize())->num_tokens, known->num_tokens);
  EXPECT_EQ(request->layout(), layout);
}

config::UpstreamConfig AnyModel() {
  config::UpstreamConfig upstream;
  upstream.name = "main";
  upstream.base_url = "http://127.0.0.1:1/v1";
  return upstream;
}

// Bodies of all kinds, most of them a change or two away from a good one.
std::vector<std::string> ManyBodies() {
  std::vector<std::string> bodies = {
      std::string(kBody),
      R"({"stream":true,"model":"m","messages":[]} )",
      R"({"stream":true,"stream":1,"model":"m","messages":[]})",
      R"({"stream":false,"str\u0065am":true,"model":"m","messages":[]})",
      R"({"model":"a","mod\u0065l":"b","messages":[{"role":"user","content":"x"}]})",
      R"({"model":"a\ud800","messages":[{"role":"user","content":"x"}]})",
      R"({"model":{"a":1},"messages":[{"role":"user","content":"x"}]})",
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"\u00e9\ud83d\ude00"}]}]})",
      R"({"model":"m","messages":[],"x":1.5e3,"y":[true,null,{"z":"\n"}]})",
      "{\"model\":\"m\",\"messages\":[],\"a\tb\":1}",
      "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}",
      "{\"model\":\"m\xc3\xa9\",\"messages\":[]}",
      R"({"model":"m","messages":[]}{})"};
  std::mt19937 random(7);
  const std::string good =
      R"({"model":"gpt-1","stream":true,"tools":[{"type":"function","function":{"name":"f"}}],)"
      R"("messages":[{"role":"system","content":"be \"short\""},{"role":"user","content":)"
      R"([{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}],"temperature":0.5})";
  const std::string_view bytes = "{}[]\",:\\ \n01tx-\x80\xe2";
  for (int i = 0; i < 3000; ++i) {
    std::string body = good;
    for (int changes = 1 + static_cast<int>(random() % 2); changes > 0; --changes) {
      const size_t at = random() % body.size();
      const char byte = bytes[random() % bytes.size()];
      if (random() % 3 == 0)
        body.erase(at, 1 + random() % 3);
      else if (random() % 2 == 0)
        body.insert(at, 1, byte);
      else
        body[at] = byte;
    }
    bodies.push_back(std::move(body));
  }
  return bodies;
}

// What is known of a prompt stands in for a scan of its bytes, and must say the same.
TEST(RequestContextTest, APromptThatIsReadAtOnceShowsTheFieldsThatAScanFinds) {
  service::Prompts prompts{prompt::Optimizer::Options{}};
  TestProxy proxy({.targets = {.upstreams = {AnyModel()}}, .options = {.prompts = &prompts}});
  TestSink sink(proxy.io());
  size_t num_read = 0;
  for (const std::string& body : ManyBodies()) {
    const TestRequest ask = Asked("/v1/chat/completions", body);
    const auto request = proxy.Open(ask, sink);
    ASSERT_TRUE(proxy.Run(request->Scan()));
    if (request->layout() == nullptr) continue;
    ++num_read;
    std::string copy = body;
    const upstream::BodyScan scan = upstream::ScanBody(copy);
    EXPECT_TRUE(scan.readable) << body;
    EXPECT_EQ(request->scan().readable, scan.readable) << body;
    EXPECT_EQ(request->scan().model, scan.model) << body;
    EXPECT_EQ(request->scan().model_begin, scan.model_begin) << body;
    EXPECT_EQ(request->scan().model_end, scan.model_end) << body;
    EXPECT_EQ(request->scan().stream, scan.stream) << body;
  }
  EXPECT_GT(num_read, 500u);
}

TEST(RequestContextTest, APromptThatIsReadAtOnceIsNotReadAgain) {
  service::Prompts prompts{prompt::Optimizer::Options{}};
  TestProxy proxy({.targets = {.upstreams = {AnyModel()}}, .options = {.prompts = &prompts}});
  TestSink sink(proxy.io());
  const TestRequest ask = Asked("/v1/chat/completions");
  const auto request = proxy.Open(ask, sink);
  ASSERT_TRUE(proxy.Run(request->Scan()));
  const auto* const layout = request->layout();
  ASSERT_NE(layout, nullptr);
  const auto known = proxy.Run(request->Recognize());
  ASSERT_TRUE(known);
  EXPECT_GT(known->num_tokens, 0);
  EXPECT_EQ(request->layout(), layout);
}

TEST(RequestContextTest, APromptThatFoundNoThreadIsRecognizedLater) {
  service::Prompts prompts{prompt::Optimizer::Options{}};
  TestProxy proxy(
      {.options = {.prompts = &prompts}, .pools = {.request_threads = 1, .queue_max = 2}});
  TestSink sink(proxy.io());
  const TestRequest ask = Asked("/v1/chat/completions");
  const auto request = proxy.Open(ask, sink);
  ASSERT_TRUE(proxy.Run(request->Scan()));
  {
    const test::BusyThreads busy(proxy.pools().request, 1, request->caller().tenant());
    EXPECT_EQ(proxy.Run(request->Recognize()).error().code, ErrorCode::kOverloaded);
    EXPECT_EQ(request->layout(), nullptr);
  }
  ASSERT_TRUE(test::WaitUntil([&] { return proxy.pools().request.stats().num_queued == 0; },
                              "there is room again"));
  EXPECT_GT(proxy.Run(request->Recognize())->num_tokens, 0);
}

TEST(RequestContextTest, WithoutExaminationNothingIsKnownOfAPrompt) {
  TestProxy proxy;
  TestSink sink(proxy.io());
  const TestRequest ask = Asked("/v1/chat/completions");
  const auto request = proxy.Open(ask, sink);
  ASSERT_TRUE(proxy.Run(request->Scan()));
  const auto known = proxy.Run(request->Recognize());
  ASSERT_TRUE(known);
  EXPECT_EQ(known->num_tokens, 0);
  EXPECT_EQ(request->layout(), nullptr);
}

TEST(RequestContextTest, AKeyOfSomeModelsTakesNoRequestThatDoesNotShowItsModel) {
  config::KeyConfig key = Key();
  key.models = {"gpt-*"};
  TestProxy proxy({.targets = {.keys = {key}}});
  TestSink sink(proxy.io());
  for (const char* const body : {"garbage", R"({"messages":[]})", R"({"model":"claude-1"})", ""}) {
    const TestRequest ask = Asked("/v1/chat/completions", body);
    const auto request = proxy.Open(ask, sink);
    ASSERT_TRUE(proxy.Run(request->Scan()));
    EXPECT_EQ(request->Admit(request->model()).error().code, ErrorCode::kPermissionDenied) << body;
  }
  const TestRequest ask = Asked("/v1/chat/completions");
  const auto request = proxy.Open(ask, sink);
  ASSERT_TRUE(proxy.Run(request->Scan()));
  EXPECT_TRUE(request->Admit(request->model()));
  // A list of models names none, and is let through.
  const TestRequest list{
      .method = "GET", .path = "/v1/models", .fields = {{"x-kvgate-key", "key"}}};
  EXPECT_TRUE(AdmitOwnData(*proxy.Open(list, sink)));
}

TEST(RequestContextTest, OwnDataCountsAgainstTheKeysLimits) {
  config::KeyConfig key = Key();
  key.requests_per_minute = 1;
  TestProxy proxy({.targets = {.keys = {key}}});
  TestSink sink(proxy.io());
  const TestRequest ask{
      .method = "GET", .path = "/v1/models/m", .fields = {{"x-kvgate-key", "key"}}};
  EXPECT_TRUE(AdmitOwnData(*proxy.Open(ask, sink)));
  EXPECT_EQ(AdmitOwnData(*proxy.Open(ask, sink)).error().code, ErrorCode::kRateLimited);
}

TEST(RequestContextTest, APromptLargerThanTheKeyAllowsIsRefused) {
  service::Prompts prompts{prompt::Optimizer::Options{}};
  for (const int64_t most : {int64_t{1}, int64_t{1000}}) {
    config::KeyConfig key = Key();
    key.prompt_tokens_max = most;
    TestProxy proxy({.targets = {.keys = {key}}, .options = {.prompts = &prompts}});
    TestSink sink(proxy.io());
    for (const char* const path : {"/v1/chat/completions", "/v1/messages"}) {
      const TestRequest ask = Asked(path);
      const auto request = proxy.Open(ask, sink);
      ASSERT_TRUE(proxy.Run(request->Scan()));
      const Result<void> checked = proxy.Run(request->CheckPrompt("gpt-1"));
      ASSERT_EQ(checked.has_value(), most > 1) << path;
      if (!checked) {
        EXPECT_THAT(checked.error().detail, HasSubstr("at most 1 tokens"));
      }
    }
  }
}

TEST(RequestContextTest, SeveralEncodingsAreNotDecoded) {
  TestProxy proxy;
  TestSink sink(proxy.io());
  const TestRequest ask{.body = std::string(kBody),
                        .fields = {{"content-encoding", "gzip"}, {"Content-Encoding", "br"}}};
  const auto request = proxy.Open(ask, sink);
  ASSERT_TRUE(proxy.Run(request->Scan()));
  EXPECT_TRUE(request->body().is_encoded());
  EXPECT_TRUE(request->body().is_unreadable());
}

TEST(RequestContextTest, AnswersCarryTheirIdAsTheDialectNamesIt) {
  TestProxy proxy;
  TestSink sink(proxy.io());
  const auto name = [&](std::string method, std::string path) {
    const TestRequest ask{.method = std::move(method), .path = std::move(path)};
    return std::string(proxy.Open(ask, sink)->Info().dialect_id_name);
  };
  EXPECT_EQ(name("POST", "/v1/chat/completions"), "x-request-id");
  EXPECT_EQ(name("POST", "/v1/messages"), "request-id");
  EXPECT_EQ(name("GET", "/kvgate/v1/stats"), "");
  const TestRequest ask = Asked("/v1/chat/completions");
  const auto request = proxy.Open(ask, sink);
  request->notes().left_out = "image";
  EXPECT_EQ(request->Info().left_out, "image");
  EXPECT_EQ(request->Info().request_id, test::kTestRequestId);
}

TEST(RequestContextTest, ARefusalIsSaidInTheCallersDialectAndCounted) {
  TestProxy proxy;
  const Error error = MakeError(ErrorCode::kInvalidArgument, "x", "That is wrong.");
  TestSink chat(proxy.io());
  const TestRequest ask_chat = Asked("/v1/chat/completions");
  EXPECT_TRUE(proxy.Run(proxy.Open(ask_chat, chat)->Refuse(error)));
  EXPECT_EQ(chat.status, 400);
  EXPECT_TRUE(chat.body.starts_with(R"({"error":{)")) << chat.body;
  TestSink messages(proxy.io());
  const TestRequest ask_messages = Asked("/v1/messages");
  EXPECT_TRUE(proxy.Run(proxy.Open(ask_messages, messages)->Refuse(error)));
  EXPECT_TRUE(messages.body.starts_with(R"({"type":"error",)")) << messages.body;
  EXPECT_THAT(messages.body, HasSubstr(test::kTestRequestId));
  EXPECT_EQ(NumCounted(proxy, "/v1/chat/completions", "400"), 1u);
  EXPECT_EQ(NumCounted(proxy, "/v1/messages", "400"), 1u);
  TestSink left(proxy.io());
  left.Leave();
  EXPECT_FALSE(proxy.Run(proxy.Open(ask_chat, left)->Refuse(error)));
  EXPECT_EQ(left.status, 0);
}

TEST(RequestContextTest, EachEndpointHasADialect) {
  using dialect::form::Endpoint;
  EXPECT_EQ(DialectOf(Endpoint::kMessages), dialect::form::Dialect::kMessages);
  EXPECT_EQ(DialectOf(Endpoint::kResponses), dialect::form::Dialect::kResponses);
  EXPECT_EQ(DialectOf(Endpoint::kOther), dialect::form::Dialect::kChatCompletions);
}

TEST(RequestContextTest, APathIsWhatRemainsOfATarget) {
  EXPECT_EQ(PathOf("/v1/models?a=b#c"), "/v1/models");
  EXPECT_EQ(PathOf("/v1/models#c?a"), "/v1/models");
  EXPECT_EQ(PathOf("https://host:1/v1/models?a"), "/v1/models");
  EXPECT_EQ(PathOf("https://host"), "/");
}

TEST(RequestContextTest, AKeyInGeminisQueryIsACredentialAndNoPartOfTheTarget) {
  TestProxy proxy;
  TestSink sink(proxy.io());
  const std::string path = "/v1beta/models/m:streamGenerateContent";
  for (const auto& [query, left] : {std::pair<std::string, std::string>{"?key=k1", ""},
                                    {"?key=k1&alt=sse", "?alt=sse"},
                                    {"?alt=sse&key=k1", "?alt=sse"},
                                    {"?k%65y=k1&alt=sse&key=k2", "?alt=sse"},
                                    {"?key=k1&alt=sse&k%65y=k2&key=k3", "?alt=sse"},
                                    {"?alt=sse&key=k1&a=b", "?alt=sse&a=b"}}) {
    const TestRequest ask{.method = "POST", .path = path + query, .body = "{}"};
    const auto request = proxy.Open(ask, sink);
    EXPECT_EQ(request->head().target, path + left);
    EXPECT_EQ(request->Header("x-goog-api-key"), "k1");
    ASSERT_TRUE(proxy.Run(request->Scan()));
    EXPECT_EQ(request->model(), "m");
    EXPECT_TRUE(request->scan().stream);
  }
  const TestRequest other{.method = "POST", .path = "/v1/chat/completions?key=k1", .body = "{}"};
  EXPECT_EQ(proxy.Open(other, sink)->head().target, other.path);
}

TEST(RequestContextTest, AModelInAPathGetsAnotherName) {
  EXPECT_EQ(WithModel("/v1beta/models/a:generateContent?alt=sse", "b"),
            "/v1beta/models/b:generateContent?alt=sse");
  EXPECT_EQ(WithModel("/v1/models/x/y:countTokens", "b"), "/v1/models/b:countTokens");
  EXPECT_EQ(WithModel("/v1/chat/completions", "b"), "/v1/chat/completions");
}

}  // namespace
}  // namespace kvgate::proxy::request
