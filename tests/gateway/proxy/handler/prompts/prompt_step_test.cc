#include "gateway/proxy/handler/prompts/prompt_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/session/prompts/named_prompts.h"
#include "tests/gateway/proxy/session_proxy.h"
#include "tests/gateway/upstream/model_provider.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::proxy::handler::prompts {
namespace {

using Fields = test::SessionProxy::Fields;
using session::prompts::MakeVersion;
using session::prompts::NamedPrompts;
using test::ModelProvider;
using test::SessionProxy;
using test::TestSink;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kBody = R"({"model":"local","max_tokens":64,
    "messages":[{"role":"user","content":"hi"}]})";

class PromptStepTest : public ::testing::Test {
 protected:
  // A request in no session.
  std::unique_ptr<TestSink> Ask(std::string body, Fields fields,
                                std::string path = "/v1/chat/completions") {
    test::TestRequest request = proxy.Request(std::move(body), {}, std::move(path));
    std::erase_if(request.fields,
                  [](const auto& field) { return field.first == "x-kvgate-session"; });
    request.fields.insert(request.fields.end(), fields.begin(), fields.end());
    return proxy.Ask(request);
  }
  std::unique_ptr<TestSink> Say(std::string_view text, Fields fields) {
    return proxy.Say(fmt::format(R"({{"model":"local","max_tokens":64,
        "messages":[{{"role":"user","content":"{}"}}]}})",
                                 text),
                     std::move(fields));
  }
  static nlohmann::json ErrorOf(const TestSink& sink) {
    const auto body = nlohmann::json::parse(sink.body, nullptr, false);
    return body.is_object() && body.contains("error") ? body["error"] : nlohmann::json::object();
  }
  void RollOut(std::string version) {
    ASSERT_TRUE(named->Set(*MakeVersion({.name = "a", .version = std::move(version)}, "NEW", {})));
  }

  store::MemoryMetaStore meta;
  std::unique_ptr<NamedPrompts> named =
      *NamedPrompts::Open(&meta, {*MakeVersion({.name = "a", .version = "1"}, "OLD", {}),
                                  *MakeVersion({.name = "v", .version = "1"}, "FOR {{who}}", {})});
  SessionProxy proxy{{}, {}, {}, true, {}, nullptr, named.get()};
};

TEST_F(PromptStepTest, ThePromptStandsInFrontAndTheAnswerSaysItsVersion) {
  const auto answered = Ask(kBody, {{"x-kvgate-prompt", "a"}});
  EXPECT_EQ(answered->status, 200) << answered->body;
  EXPECT_EQ(answered->prompt, "a@1");
  EXPECT_EQ(proxy.Prompt(), "system: OLD\nuser: hi\nassistant:");
  EXPECT_EQ(Ask(kBody, {})->prompt, "");
}

TEST_F(PromptStepTest, ValuesStandBehindTheText) {
  const auto answered =
      Ask(kBody, {{"x-kvgate-prompt", "v@1"}, {"x-kvgate-prompt-variables", R"({"who":"Ada"})"}});
  EXPECT_EQ(answered->status, 200) << answered->body;
  EXPECT_THAT(proxy.Prompt(), StartsWith("system: FOR {{who}}\n\nThe names"));
  EXPECT_THAT(proxy.Prompt(), HasSubstr("who: \"Ada\"\nuser: hi"));
}

TEST_F(PromptStepTest, WhatCannotBeTakenIsRefusedInTheCallersDialect) {
  const auto missing = Ask(kBody, {{"x-kvgate-prompt", "v"}});
  EXPECT_EQ(missing->status, 400);
  EXPECT_THAT(std::string(ErrorOf(*missing)["message"]), HasSubstr("'who'"));
  EXPECT_EQ(ErrorOf(*missing)["param"], "x-kvgate-prompt-variables");
  const auto unknown = Ask(kBody, {{"x-kvgate-prompt", "z"}}, "/v1/messages");
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(ErrorOf(*unknown)["type"], "not_found_error");
  EXPECT_THAT(std::string(ErrorOf(*unknown)["message"]), HasSubstr("x-kvgate-prompt"));
  EXPECT_EQ(Ask(kBody, {{"x-kvgate-prompt", "a b"}})->status, 400);
  EXPECT_EQ(Ask(kBody, {{"x-kvgate-prompt-variables", "{}"}})->status, 400);
  EXPECT_EQ(Ask(R"({"model":"local","prompt":"hi"})", {{"x-kvgate-prompt", "a"}}, "/v1/completions")
                ->status,
            400);
  EXPECT_EQ(Ask(R"({"model":"local"})", {{"x-kvgate-prompt", "a"}})->status, 400);
}

TEST_F(PromptStepTest, ASessionKeepsItsVersionThroughARollOut) {
  EXPECT_EQ(Say("one", {{"x-kvgate-prompt", "a"}})->prompt, "a@1");
  RollOut("2");
  const auto second = Say("two", {{"x-kvgate-prompt", "a"}});
  EXPECT_EQ(second->status, 200) << second->body;
  EXPECT_EQ(second->prompt, "a@1");
  const auto third = Say("three", {});
  EXPECT_EQ(third->prompt, "a@1") << "the session has it, named or not";
  EXPECT_THAT(proxy.Prompt(), StartsWith("system: OLD\nuser: one\n"));
  const auto other = proxy.Say(kBody, {{"x-kvgate-prompt", "a@2"}});
  EXPECT_EQ(other->status, 409) << other->body;
  EXPECT_THAT(other->body, HasSubstr("a@1"));
  const auto meant = Say("four", {{"x-kvgate-prompt", "a@2"}, {"x-kvgate-session-mode", "append"}});
  EXPECT_EQ(meant->status, 200) << meant->body;
  EXPECT_THAT(proxy.Prompt(), StartsWith("system: NEW\nuser: one\n"));
  EXPECT_EQ(Say("five", {{"x-kvgate-prompt", "a"}})->prompt, "a@2");
}

TEST_F(PromptStepTest, ASessionGoesOnWithAVersionThatWasRemoved) {
  ASSERT_TRUE(named->Set(*MakeVersion({.name = "b", .version = "1"}, "GONE", {})));
  EXPECT_EQ(Say("one", {{"x-kvgate-prompt", "b"}})->prompt, "b@1");
  ASSERT_TRUE(named->Remove({.name = "b", .version = {}}));
  const auto second = Say("two", {{"x-kvgate-prompt", "b"}});
  EXPECT_EQ(second->status, 200) << second->body;
  EXPECT_EQ(second->prompt, "b@1");
  EXPECT_THAT(proxy.Prompt(), StartsWith("system: GONE\nuser: one\n"));
}

TEST_F(PromptStepTest, AnotherSystemTextOfASessionEndsItsPrompt) {
  EXPECT_EQ(Say("one", {{"x-kvgate-prompt", "a"}})->prompt, "a@1");
  const char* own = R"({"model":"local","max_tokens":64,"messages":[
      {"role":"system","content":"MINE"},{"role":"user","content":"two"}]})";
  EXPECT_EQ(proxy.Say(own)->status, 409);
  const auto meant = proxy.Say(own, {{"x-kvgate-session-mode", "append"}});
  EXPECT_EQ(meant->status, 200) << meant->body;
  EXPECT_EQ(meant->prompt, "");
  EXPECT_EQ(Say("three", {})->prompt, "");
}

TEST_F(PromptStepTest, AConversationThatItsCallerKeepsGoesOnToo) {
  EXPECT_EQ(Ask(kBody, {{"x-kvgate-prompt", "a"}})->prompt, "a@1");
  RollOut("2");
  const char* second = R"({"model":"local","max_tokens":64,"messages":[
      {"role":"user","content":"hi"},{"role":"assistant","content":"yes"},
      {"role":"user","content":"more"}]})";
  EXPECT_EQ(Ask(second, {{"x-kvgate-prompt", "a"}})->prompt, "a@1");
  EXPECT_THAT(proxy.Prompt(), StartsWith("system: OLD\nuser: hi\n"));
  EXPECT_EQ(Ask(kBody, {{"x-kvgate-prompt", "a"}})->prompt, "a@2") << "it begins now";
  EXPECT_EQ(Ask(second, {{"x-kvgate-prompt", "a"}})->prompt, "a@1");
}

TEST_F(PromptStepTest, AChainOfStoredResponsesKeepsItsVersion) {
  const auto first =
      Ask(R"({"model":"local","input":"one"})", {{"x-kvgate-prompt", "a"}}, "/v1/responses");
  ASSERT_EQ(first->status, 200) << first->body;
  const std::string id = nlohmann::json::parse(first->body)["id"];
  RollOut("2");
  const std::string next =
      fmt::format(R"({{"model":"local","input":"two","previous_response_id":"{}"}})", id);
  const auto second = Ask(next, {{"x-kvgate-prompt", "a"}}, "/v1/responses");
  EXPECT_EQ(second->status, 200) << second->body;
  EXPECT_EQ(second->prompt, "a@1");
  EXPECT_THAT(proxy.Prompt(), StartsWith("system: OLD\nuser: one\n"));
  const std::string second_id = nlohmann::json::parse(second->body)["id"];
  const std::string third =
      fmt::format(R"({{"model":"local","input":"x","previous_response_id":"{}"}})", second_id);
  EXPECT_EQ(Ask(third, {{"x-kvgate-prompt", "a"}}, "/v1/responses")->prompt, "a@1");
  EXPECT_EQ(Ask(third, {{"x-kvgate-prompt", "a@2"}}, "/v1/responses")->status, 409);
}

TEST_F(PromptStepTest, WhatAProviderKeepsNeedsAVersionWhereThereAreSeveral) {
  RollOut("2");
  const char* body = R"({"model":"local","input":"x","previous_response_id":"resp_theirs"})";
  const auto refused = Ask(body, {{"x-kvgate-prompt", "a"}}, "/v1/responses");
  EXPECT_EQ(refused->status, 400);
  EXPECT_EQ(ErrorOf(*refused)["param"], "x-kvgate-prompt");
}

TEST_F(PromptStepTest, CountsAreOfThePromptThatWouldBeAnswered) {
  const auto without = Ask(kBody, {}, "/v1/messages/count_tokens");
  const auto with = Ask(kBody, {{"x-kvgate-prompt", "a"}}, "/v1/messages/count_tokens");
  ASSERT_EQ(with->status, 200) << with->body;
  EXPECT_EQ(with->prompt, "a@1");
  const auto tokens = [](const TestSink& sink) {
    return nlohmann::json::parse(sink.body)["input_tokens"].get<int>();
  };
  EXPECT_GT(tokens(*with), tokens(*without));
}

TEST_F(PromptStepTest, AnUpstreamGetsThePromptAndNotItsName) {
  ModelProvider provider("up", "anthropic");
  SessionProxy forwarding({}, {.upstreams = {provider.Config({"claude-*"})}}, {}, true, {}, nullptr,
                          named.get());
  test::TestRequest request = forwarding.Request(
      R"({"model":"claude-1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})",
      {{"x-kvgate-prompt", "v"}, {"x-kvgate-prompt-variables", R"({"who":"Ada"})"}},
      "/v1/messages");
  const auto answered = forwarding.Ask(request);
  EXPECT_EQ(answered->status, 200) << answered->body;
  EXPECT_EQ(answered->prompt, "v@1");
  ASSERT_EQ(provider.requests().size(), 1u);
  EXPECT_THAT(provider.requests()[0],
              HasSubstr(R"("system":[{"type":"text","text":"FOR {{who}}"},{"type":"text")"));
  EXPECT_THAT(provider.requests()[0], Not(HasSubstr("x-kvgate")));
}

}  // namespace
}  // namespace kvgate::proxy::handler::prompts
