#include "gateway/service/output_cap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvgate::service {
namespace {

using dialect::form::Endpoint;
using testing::HasSubstr;

struct Outcome {
  std::string body;   // as it is sent
  std::string field;  // of the refusal; empty: the request is accepted
};

Outcome Cap(std::string_view body, Endpoint endpoint = Endpoint::kChatCompletions,
            std::string_view provider = "openai") {
  const auto edits = CapOutput({.body = body,
                                .endpoint = endpoint,
                                .provider = provider,
                                .limit = {.fallback = 77, .most = 500},
                                .key = "team"});
  if (!edits) return {"", edits.error().field};
  const prompt::parse::Span whole = {0, static_cast<uint32_t>(body.size())};
  return {prompt::parse::ApplyEdits(body, *edits, whole), ""};
}

// Some server takes each of these bodies for a longer answer; none may be sent unchanged.
TEST(OutputCapTest, ATenantDoesNotPassItByTheWayItIsSpelled) {
  for (const std::string_view body : {
           R"({"max_tokens":501})",
           R"({"max_tokens":5,"max_tokens":100000})",
           R"({"max_tokens":100000,"max_tokens":5})",
           R"({"max\u005ftokens":100000})",
           R"({"max_tokens":5,"m\u0061x_tokens":100000})",
           R"({"Max_Tokens":100000})",
           R"({"max_tokens":5,"MAX_TOKENS":100000})",
           "{\"max_to\u212aens\":100000}",
           "{\"max_token\u017f\":100000}",
           R"({"max_tokens":5,"max_completion_tokens":100000})",
           R"({"max_completion_tokens":5,"max_tokens":1e9})",
           R"({"max_tokens":5,"n_predict":100000})",
           R"({"max_tokens":5,"n_predict":-1})",
           R"({"max_tokens":5,"max_new_tokens":100000})",
           R"({"max_tokens":-1})",
           R"({"max_tokens":-9e999})",
           R"({"max_tokens":0})",
           R"({"max_tokens":0e5})",
           R"({"max_tokens":9e999})",
           R"({"max_tokens":99999999999999999999999})",
           R"({"max_tokens":"100000"})",
           R"({"max_tokens":[100000]})",
           R"({"max_tokens":{"value":100000}})",
           R"({"max_tokens":true})",
           R"({"max_tokens":Infinity})",
           R"({"max_tokens":0x7fffffff})",
           R"({"max_tokens":null})",
           R"({"max_tokens":null,"max_completion_tokens":null})",
           R"({"max_tokens":5,"max_tokens":null})",
           R"({})",
           R"( { } )",
           R"({"messages":[{"max_tokens":5}]})",
           R"({"max_tokens":5} {"max_tokens":100000)",
       }) {
    const Outcome outcome = Cap(body);
    EXPECT_NE(outcome.body, body);
    if (outcome.body.empty()) continue;  // refused
    const auto sent = nlohmann::json::parse(outcome.body, nullptr, false);
    if (sent.is_discarded()) continue;  // no parser takes it
    bool is_bounded = false;
    for (const auto& [name, value] : sent.items()) {
      if (value.is_null() || name == "messages") continue;
      ASSERT_TRUE(value.is_number()) << outcome.body;
      EXPECT_GE(value.get<double>(), 1) << outcome.body;
      EXPECT_LE(value.get<double>(), 500) << outcome.body;
      is_bounded = is_bounded || name == "max_tokens" || name == "max_completion_tokens";
    }
    EXPECT_TRUE(is_bounded) << outcome.body;
  }
}

TEST(OutputCapTest, WhatKeepsTheBoundIsNotTouched) {
  for (const std::string_view body :
       {R"({"max_tokens":500})", R"({"max_completion_tokens":1,"n_predict":null})",
        R"({"max_tokens":5.0e2,"metadata":{"max_tokens":100000}})"}) {
    EXPECT_EQ(Cap(body).body, body);
  }
  EXPECT_EQ(Cap(R"({"max_tokens":0})", Endpoint::kMessages).body, R"({"max_tokens":0})")
      << "it asks for the prompt's KV alone";
}

TEST(OutputCapTest, TheMemberThatTheDialectHasIsAdded) {
  EXPECT_EQ(Cap("{}").body, R"({"max_completion_tokens":77})");
  EXPECT_EQ(Cap(R"({"a":1})", Endpoint::kCompletions).body, R"({"a":1,"max_tokens":77})");
  EXPECT_EQ(Cap(R"({"a":1})", Endpoint::kResponses).body, R"({"a":1,"max_output_tokens":77})");
  EXPECT_EQ(Cap(R"({"a":1})", Endpoint::kMessages).body, R"({"a":1,"max_tokens":77})");
  // Another dialect's name does not count, because this server does not know it.
  EXPECT_EQ(Cap(R"({"max_tokens":5})", Endpoint::kResponses).body,
            R"({"max_tokens":5,"max_output_tokens":77})");
}

// The chat of other providers may know only the older name.
TEST(OutputCapTest, TheNewerNameOfChatIsSaidByTheOlderOneAsWell) {
  const auto sent = [](std::string_view body) {
    return Cap(body, Endpoint::kChatCompletions, "deepseek").body;
  };
  EXPECT_EQ(sent(R"({"max_completion_tokens":5})"),
            R"({"max_completion_tokens":5,"max_tokens":5})");
  EXPECT_EQ(sent(R"({"max_completion_tokens":9000})"),
            R"({"max_completion_tokens":500,"max_tokens":500})");
  EXPECT_EQ(sent(R"({"max_tokens":null,"max_completion_tokens":1e-400})"),
            R"({"max_tokens":500,"max_completion_tokens":500})");
  EXPECT_EQ(sent(R"({"max_tokens":9,"max_completion_tokens":5})"),
            R"({"max_tokens":9,"max_completion_tokens":5})");
  EXPECT_EQ(Cap(R"({"max_completion_tokens":5})", Endpoint::kChatCompletions, "azure").body,
            R"({"max_completion_tokens":5})");
}

TEST(OutputCapTest, ARefusalNamesTheFieldTheKeyAndTheBound) {
  EXPECT_EQ(Cap(R"({"max_tokens":5,"max_tokens":6})").field, "max_tokens");
  EXPECT_EQ(Cap(R"({"n_predict":"9"})").field, "n_predict");
  const auto fixed = CapOutput({.body = R"({"max_tokens":9000})",
                                .endpoint = Endpoint::kMessages,
                                .provider = "anthropic",
                                .limit = {.fallback = 77, .most = 500},
                                .key = "team",
                                .fixed = "Nothing changes"});
  EXPECT_EQ(fixed.error().detail,
            "Invalid value for 'max_tokens': answers to the key 'team' have at most 500 tokens, "
            "and this request asks for 9000. Nothing changes, so it has to name at most 500 "
            "itself.");
  const std::string digits = "{\"max_tokens\":" + std::string(5000, '9') + "}";
  const auto cut = CapOutput({.body = digits,
                              .endpoint = Endpoint::kMessages,
                              .provider = "anthropic",
                              .limit = {.fallback = 77, .most = 500},
                              .key = "team",
                              .fixed = "Nothing changes"});
  EXPECT_LT(cut.error().detail.size(), 300u);
}

TEST(OutputCapTest, GeminisLimitStandsInItsConfiguration) {
  const auto cap = [](std::string_view body) { return Cap(body, Endpoint::kGenerateContent); };
  EXPECT_EQ(cap(R"({})").body, R"({"generationConfig":{"maxOutputTokens":77}})");
  EXPECT_EQ(cap(R"({"a":1})").body, R"({"a":1,"generationConfig":{"maxOutputTokens":77}})");
  EXPECT_EQ(cap(R"({"generationConfig":null})").body,
            R"({"generationConfig":{"maxOutputTokens":77}})");
  EXPECT_EQ(cap(R"({"generationConfig":{}})").body,
            R"({"generationConfig":{"maxOutputTokens":77}})");
  EXPECT_EQ(cap(R"({"generation_config": {"topK":1} })").body,
            R"({"generation_config": {"topK":1,"maxOutputTokens":77} })");
  EXPECT_EQ(cap(R"({"generationConfig":{"maxOutputTokens":9000,"topK":1}})").body,
            R"({"generationConfig":{"maxOutputTokens":500,"topK":1}})");
  EXPECT_EQ(cap(R"({"generationConfig":{"max_output_tokens":7}})").body,
            R"({"generationConfig":{"max_output_tokens":7}})");
  EXPECT_EQ(cap(R"({"generationConfig":{"maxOutputTokens":null}})").body,
            R"({"generationConfig":{"maxOutputTokens":77}})");
}

TEST(OutputCapTest, ATenantDoesNotPassGeminisByTheWayItIsSpelled) {
  for (const std::string_view body : {R"({"generationConfig":{"maxOutputTokens":0}})",
                                      R"({"generationConfig":{"maxOutputTokens":-1}})",
                                      R"({"generationConfig":{"max\u004futputTokens":9000}})",
                                      R"({"g\u0065nerationConfig":{"maxOutputTokens":9000}})"}) {
    const Outcome outcome = Cap(body, Endpoint::kGenerateContent);
    EXPECT_THAT(outcome.body, HasSubstr("500")) << body;
    EXPECT_THAT(outcome.body, testing::Not(HasSubstr("9000"))) << body;
  }
  for (const std::string_view body :
       {R"({"generationConfig":{"maxOutputTokens":5},"generation_config":{}})",
        R"({"generationConfig":{"maxOutputTokens":5,"max_output_tokens":9000}})",
        R"({"generationConfig":{"maxOutputTokens":"9000"}})", R"({"generationConfig":[]})", "[]"}) {
    const auto edits = CapOutput({.body = body,
                                  .endpoint = Endpoint::kGenerateContent,
                                  .provider = "gemini",
                                  .limit = {.fallback = 77, .most = 500},
                                  .key = "team"});
    EXPECT_FALSE(edits) << body;
  }
}

}  // namespace
}  // namespace kvgate::service
