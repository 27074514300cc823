#include "gateway/protocol/completions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<CompletionRequest> Decode(const std::string& prompt, const std::string& more = "") {
  return DecodeCompletions(R"({"model":"m","prompt":)" + prompt + more + "}", {});
}

struct BadCompletion {
  const char* prompt;
  const char* more;
  const char* field;
  const char* message;
};

class BadCompletionTest : public ::testing::TestWithParam<BadCompletion> {};

TEST_P(BadCompletionTest, IsRefusedByNameWithTheReason) {
  const auto decoded = Decode(GetParam().prompt, GetParam().more);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().field, GetParam().field);
  EXPECT_THAT(decoded.error().detail, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadCompletionTest,
    ::testing::Values(
        BadCompletion{"null", "", "prompt", "Missing"},
        BadCompletion{"5", "", "prompt", "an array of token ids"},
        BadCompletion{"[]", "", "prompt", "empty array"},
        BadCompletion{"[[]]", "", "prompt[0]", "empty array"},
        BadCompletion{R"(["a","b"])", "", "prompt", "more than one prompt"},
        BadCompletion{"[[1],[2]]", "", "prompt", "more than one prompt"},
        BadCompletion{R"([1,"a"])", "", "prompt[1]", "expected an integer"},
        BadCompletion{"[1,-1]", "", "prompt[1]", "must be between 0"},
        BadCompletion{"[[1,2147483648]]", "", "prompt[0][1]", "must be between 0"},
        BadCompletion{R"("x")", R"(,"logprobs":21)", "logprobs", "between 0 and 20"},
        BadCompletion{R"("x")", R"(,"logprobs":true)", "logprobs", "expected an integer"},
        BadCompletion{R"("x")", R"(,"echo":1)", "echo", "expected a boolean"},
        BadCompletion{R"("x")", R"(,"echo":true,"logprobs":1)", "echo", "not supported"},
        BadCompletion{R"("x")", R"(,"best_of":2)", "best_of", "not supported"},
        BadCompletion{R"("x")", R"(,"suffix":"s")", "suffix", "not supported"}));

TEST(DecodeCompletionsTest, TakesAPromptInAllItsForms) {
  EXPECT_EQ(std::get<std::string>(Decode(R"("x\ty")")->prompt), "x\ty");
  EXPECT_EQ(std::get<std::string>(Decode(R"(["x"])")->prompt), "x");
  EXPECT_THAT(std::get<std::vector<TokenId>>(Decode("[1,2,3]")->prompt), ElementsAre(1, 2, 3));
  EXPECT_THAT(std::get<std::vector<TokenId>>(Decode("[[4,5]]")->prompt), ElementsAre(4, 5));
  EXPECT_EQ(Decode(R"("x")", R"(,"logprobs":0,"best_of":1,"suffix":"")")->num_logprobs, 0);
}

ReplyOptions Options() {
  return {.dialect = Dialect::kCompletions,
          .request_id = "r1",
          .created_unix = 5,
          .model = "m",
          .system_fingerprint = "fp",
          .echo = {}};
}

TEST(EncodeCompletionsTest, AStreamIsExactlyTheDocumentedChunks) {
  ReplyOptions options = Options();
  options.stream = true;
  options.echo = "Once";
  const auto encoder = MakeCompletionsEncoder(options);
  std::string out;
  encoder->OnStart(out);
  encoder->OnDelta({.text = " upon"}, out);
  encoder->OnFinish({.reason = FinishReason::kStop}, out);
  const std::string head =
      R"(data: {"id":"cmpl-r1","object":"text_completion","created":5,"model":"m",)"
      R"("system_fingerprint":"fp","choices":[{"index":0,"text":)";
  EXPECT_EQ(out, head + R"("Once","logprobs":null,"finish_reason":null}]})" + "\n\n" + head +
                     R"(" upon","logprobs":null,"finish_reason":null}]})" + "\n\n" + head +
                     R"("","logprobs":null,"finish_reason":"stop"}]})" + "\n\n" +
                     "data: [DONE]\n\n");
}

TEST(EncodeCompletionsTest, LogprobsOfOneBodySpellTokensAndOffsets) {
  ReplyOptions options = Options();
  options.logprobs = true;
  const auto encoder = MakeCompletionsEncoder(options);
  std::string out;
  encoder->OnStart(out);
  encoder->OnDelta(
      {.text = "ab",
       .tokens = {{.token = {.bytes = "ab", .logprob = -0.5f},
                   .top = {{.bytes = "x", .logprob = -1.0f}, {.bytes = "x", .logprob = -2.0f}}},
                  {.token = {.bytes = "\xE2\x82", .logprob = -0.75f}, .top = {}}}},
      out);
  encoder->OnFinish({.stats = {.num_prompt_tokens = 1, .num_output_tokens = 2}}, out);
  const auto choice = nlohmann::json::parse(out)["choices"][0];
  EXPECT_EQ(choice["text"], "ab");
  EXPECT_EQ(choice["logprobs"]["tokens"], nlohmann::json({"ab", "bytes:\\xe2\\x82"}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], nlohmann::json({-0.5, -0.75}));
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][0], nlohmann::json({{"x", -1.0}}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], nlohmann::json({0, 2}));
}

}  // namespace
}  // namespace kvgate::protocol
