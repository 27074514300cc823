#include "gateway/dialect/form/field_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/utf8.h"
#include "gateway/dialect/chat/chat_completions.h"
#include "gateway/dialect/completions/completions.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/reply_translator.h"

namespace kvgate::dialect::form {
namespace {

using chat::DecodeChatCompletions;
using completions::DecodeCompletions;

using ::testing::HasSubstr;

Error Refusal(const std::string& body) {
  const auto decoded = DecodeChatCompletions(body, {});
  EXPECT_FALSE(decoded) << body;
  return decoded ? Error{} : decoded.error();
}

TEST(FieldReaderTest, WhatIsNoJsonObjectIsRefusedWithTheReason) {
  EXPECT_THAT(Refusal("").detail, HasSubstr("empty"));
  EXPECT_THAT(Refusal("{\"model\":").detail, HasSubstr("not valid JSON"));
  EXPECT_THAT(Refusal("{} trailing").detail, HasSubstr("not valid JSON"));
  EXPECT_THAT(Refusal("[1]").detail, HasSubstr("must be a JSON object, but got an array"));
  EXPECT_THAT(Refusal("{\"model\":\"\xff\"}").detail, HasSubstr("not valid UTF-8"));
  EXPECT_EQ(Refusal("{\"model\":\"\xed\xa0\x80\"}").code, ErrorCode::kInvalidArgument);
}

TEST(FieldReaderTest, DepthIsBounded) {
  const auto nested = [](int depth) {
    return R"({"model":"m","messages":[{"role":"user","content":"x"}],"metadata":)" +
           std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']') + "}";
  };
  EXPECT_TRUE(DecodeChatCompletions(nested(32), {}));
  EXPECT_THAT(Refusal(nested(100)).detail, HasSubstr("nested too deep"));
  EXPECT_FALSE(DecodeChatCompletions(nested(1'000'000), {}));
}

TEST(FieldReaderTest, AKnownFieldGivenTwiceIsRefusedByName) {
  const Error error =
      Refusal(R"({"model":"a","model":"b","messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(error.field, "model");
  EXPECT_THAT(error.detail, HasSubstr("more than once"));
  EXPECT_EQ(
      Refusal(R"({"model":"a","messages":[{"role":"user","role":"user","content":"x"}]})").field,
      "messages[0].role");
}

TEST(FieldReaderTest, LoneSurrogatesNeverBecomeInvalidUtf8) {
  const auto decoded = DecodeCompletions(R"({"model":"m","prompt":"a\ud800b"})", {});
  if (decoded) {
    EXPECT_TRUE(IsValidUtf8(std::get<std::string>(decoded->prompt)));
  }
}

// Random edits of a valid body may give any result, but no crash and no invalid text.
TEST(FieldReaderTest, RandomBodiesNeverCrashTheDecoders) {
  const std::string seed =
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a\u00e9"}]}],)"
      R"("prompt":[1,2,3],"stop":["x"],"temperature":0.5,"stream":true,"logprobs":true,)"
      R"("stream_options":{"include_usage":true},"max_tokens":5,"seed":-1,"n":1})";
  const std::string alphabet = "{}[]\",:0123456789.eE-+truefalsn\\u \xff\xc3\xa9";
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string body = seed;
    const int num_edits = 1 + static_cast<int>(random() % 6);
    for (int i = 0; i < num_edits; ++i) {
      const size_t at = random() % body.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          body[at] = c;
          break;
        case 1:
          body.insert(at, 1, c);
          break;
        default:
          body.erase(at, 1 + random() % 8);
      }
      if (body.empty()) body = "{";
    }
    for (const auto& decoded : {DecodeChatCompletions(body, {}), DecodeCompletions(body, {})}) {
      if (!decoded) {
        EXPECT_FALSE(decoded.error().detail.empty());
        continue;
      }
      if (const auto* text = std::get_if<std::string>(&decoded->prompt)) {
        EXPECT_TRUE(IsValidUtf8(*text));
      }
    }
  }
}

}  // namespace
}  // namespace kvgate::dialect::form
