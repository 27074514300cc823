#include "gateway/dialect/translate/output_limit.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/dialect/request_translator.h"

namespace kvgate::dialect::translate {
namespace {

using dialect::form::Dialect;
using nlohmann::json;

constexpr Dialect kChat = Dialect::kChatCompletions;
constexpr Dialect kResponses = Dialect::kResponses;
constexpr Dialect kMessages = Dialect::kMessages;

std::string Chat(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"Hi"}],)" + more + R"("model":"m"})";
}
std::string Responses(const std::string& more) {
  return R"({"input":"Hi",)" + more + R"("model":"m"})";
}
std::string Messages(const std::string& max_tokens) {
  return R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":)" + max_tokens +
         "}";
}

TEST(OutputLimitTest, AnswersAreBoundedInAllSixPairs) {
  const auto bound = [](Dialect from, Dialect to, const std::string& body, auto name,
                        dialect::form::OutputLimit limit = {.fallback = 300, .most = 500}) {
    const auto made = TranslateRequest({.from = from, .to = to, .body = body, .output = limit});
    EXPECT_TRUE(made) << made.error().ToString();
    return json::parse(made->body).value(name, 0);
  };
  const std::string huge = R"("max_tokens":100000,)";
  EXPECT_EQ(bound(kChat, kMessages, Chat(""), "max_tokens"), 300);
  EXPECT_EQ(bound(kResponses, kMessages, Responses(""), "max_tokens"), 300);
  EXPECT_EQ(bound(kChat, kResponses, Chat(""), "max_output_tokens"), 300);
  EXPECT_EQ(bound(kResponses, kChat, Responses(""), "max_completion_tokens"), 300);
  EXPECT_EQ(bound(kChat, kMessages, Chat(huge), "max_tokens"), 500);
  EXPECT_EQ(bound(kChat, kResponses, Chat(huge), "max_output_tokens"), 500);
  EXPECT_EQ(bound(kResponses, kMessages, Responses(R"("max_output_tokens":1e9,)"), "max_tokens"),
            500);
  EXPECT_EQ(bound(kResponses, kChat, Responses(R"("max_output_tokens":99999999999999999999,)"),
                  "max_completion_tokens"),
            500);
  // Some servers take these values for no bound at all.
  EXPECT_EQ(bound(kChat, kResponses, Chat(R"("max_tokens":-1,)"), "max_output_tokens"), 500);
  EXPECT_EQ(
      bound(kResponses, kChat, Responses(R"("max_output_tokens":0,)"), "max_completion_tokens"),
      500);
  const std::string messages = Messages("100000");
  EXPECT_EQ(bound(kMessages, kChat, messages, "max_completion_tokens"), 500);
  EXPECT_EQ(bound(kMessages, kResponses, messages, "max_output_tokens"), 500);
  EXPECT_EQ(bound(kMessages, kResponses, Messages("9"), "max_output_tokens"), 9);
  EXPECT_EQ(bound(kChat, kMessages, Chat(""), "max_tokens", {}), 4096);
}

}  // namespace
}  // namespace kvgate::dialect::translate
