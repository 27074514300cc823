#include "gateway/dialect/gemini/cached_content.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvgate::dialect::gemini {
namespace {

using Json = nlohmann::json;

TEST(CachedContentTest, ACacheIsMadeOfWhatTheRequestSays) {
  const Json whole = Json::parse(MakeCachedContent({.system_instruction = R"({"parts": [{}]})",
                                                    .tools = R"([{"a":1}])",
                                                    .tool_config = R"({"b":2})"},
                                                   "gemini-2.5-pro", 600));
  EXPECT_EQ(whole["model"], "models/gemini-2.5-pro");
  EXPECT_EQ(whole["systemInstruction"], Json::parse(R"({"parts":[{}]})"));
  EXPECT_EQ(whole["tools"][0]["a"], 1);
  EXPECT_EQ(whole["toolConfig"]["b"], 2);
  EXPECT_EQ(whole["ttl"], "600s");
  const Json tools = Json::parse(MakeCachedContent(
      {.system_instruction = {}, .tools = "[]", .tool_config = {}}, "a\"b", 300));
  EXPECT_EQ(tools["model"], "models/a\"b");
  EXPECT_FALSE(tools.contains("systemInstruction") || tools.contains("toolConfig"));
}

TEST(CachedContentTest, ACacheIsProlonged) {
  EXPECT_EQ(ProlongedPath("cachedContents/a1"), "/v1beta/cachedContents/a1?updateMask=ttl");
  EXPECT_EQ(ProlongedBody(300), R"({"ttl":"300s"})");
}

TEST(CachedContentTest, AnAnswerNamesTheCache) {
  const auto read = ReadCachedContent(
      R"({"name":"cachedContents/a-1_Z","usageMetadata":{"totalTokenCount":5000}})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->name, "cachedContents/a-1_Z");
  EXPECT_EQ(read->num_tokens, 5000);
  EXPECT_EQ(ReadCachedContent(R"({"name":"cachedContents/a"})")->num_tokens, 0);
  // A count that no cache can have would overflow what is computed with it.
  for (const char* count : {"-3", "9223372036854775807", "1e30", "\"5\"", "null"}) {
    const std::string body = R"({"name":"cachedContents/a","usageMetadata":{"totalTokenCount":)" +
                             std::string(count) + "}}";
    EXPECT_EQ(ReadCachedContent(body)->num_tokens, 0) << count;
  }
}

// The name goes into the path of a request and into bodies.
TEST(CachedContentTest, ANameThatCouldBeMoreIsNone) {
  for (const char* body :
       {"", "[]", "{}", R"({"name":""})", R"({"name":"cachedContents/"})", R"({"name":"files/a"})",
        R"({"name":"cachedContents/a b"})", R"({"name":"cachedContents/../models"})",
        R"({"name":"cachedContents/a\r\nx: y"})", R"({"name":"cachedContents/a\"b"})",
        R"({"name":"cachedContents/a?key=1"})", R"({"name":7})"}) {
    EXPECT_FALSE(ReadCachedContent(body)) << body;
  }
  EXPECT_FALSE(ReadCachedContent(R"({"name":"cachedContents/)" + std::string(300, 'a') + "\"}"));
}

}  // namespace
}  // namespace kvgate::dialect::gemini
