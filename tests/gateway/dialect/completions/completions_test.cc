#include "gateway/dialect/completions/completions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/reply/reply_encoder.h"

namespace kvgate::dialect::completions {
namespace {

using form::Fields;
using reply::ReplyOptions;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<form::CompletionRequest> Decode(const std::string& prompt, const std::string& more = "") {
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
        BadCompletion{R"(["a",5])", "", "prompt[1]", "expected a string"},
        BadCompletion{R"(["a",[1]])", "", "prompt[1]", "expected a string"},
        BadCompletion{R"([[1],"b"])", "", "prompt[1]", "expected an array"},
        BadCompletion{"[[1],[]]", "", "prompt[1]", "empty array"},
        BadCompletion{R"(["a","b","c"])", R"(,"n":43)", "n", "at most 42 where there are 3"},
        BadCompletion{R"([1,"a"])", "", "prompt[1]", "expected an integer"},
        BadCompletion{"[1,-1]", "", "prompt[1]", "must be between 0"},
        BadCompletion{"[[1,2147483648]]", "", "prompt[0][1]", "must be between 0"},
        BadCompletion{R"("x")", R"(,"logprobs":21)", "logprobs", "between 0 and 20"},
        BadCompletion{R"("x")", R"(,"logprobs":true)", "logprobs", "expected an integer"},
        BadCompletion{R"("x")", R"(,"echo":1)", "echo", "expected a boolean"},
        BadCompletion{R"("x")", R"(,"echo":true,"logprobs":1)", "echo", "not supported"},
        BadCompletion{R"("x")", R"(,"best_of":2)", "best_of", "not supported"},
        BadCompletion{R"("x")", R"(,"best_of":2,"n":3)", "best_of", "not supported"},
        BadCompletion{R"("x")", R"(,"suffix":"s")", "suffix", "not supported"}));

TEST(DecodeCompletionsTest, TakesAPromptInAllItsForms) {
  EXPECT_EQ(std::get<std::string>(Decode(R"("x\ty")")->prompt), "x\ty");
  EXPECT_EQ(std::get<std::string>(Decode(R"(["x"])")->prompt), "x");
  EXPECT_THAT(std::get<std::vector<TokenId>>(Decode("[1,2,3]")->prompt), ElementsAre(1, 2, 3));
  EXPECT_THAT(std::get<std::vector<TokenId>>(Decode("[[4,5]]")->prompt), ElementsAre(4, 5));
  EXPECT_EQ(Decode(R"("x")", R"(,"logprobs":0,"best_of":1,"suffix":"")")->num_logprobs, 0);
}

TEST(DecodeCompletionsTest, TakesSeveralPromptsAndAnswers) {
  const auto texts = Decode(R"(["a","b","c"])", R"(,"n":42,"best_of":42)");
  ASSERT_TRUE(texts) << texts.error().ToString();
  EXPECT_EQ(std::get<std::string>(texts->prompt), "a");
  ASSERT_EQ(texts->more_prompts.size(), 2u);
  EXPECT_EQ(std::get<std::string>(texts->more_prompts[1]), "c");
  EXPECT_EQ(texts->num_choices, 42);
  const auto ids = Decode("[[1,2],[3]]");
  ASSERT_TRUE(ids) << ids.error().ToString();
  EXPECT_THAT(std::get<std::vector<TokenId>>(ids->prompt), ElementsAre(1, 2));
  EXPECT_THAT(std::get<std::vector<TokenId>>(ids->more_prompts[0]), ElementsAre(3));
  std::string many = R"(["x")";
  for (int i = 1; i < 129; ++i) many += R"(,"x")";
  const auto refused = Decode(many + "]");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "prompt");
  EXPECT_THAT(refused.error().detail, HasSubstr("at most 128 prompts"));
}

ReplyOptions Options() {
  return {.dialect = form::Dialect::kCompletions,
          .request_id = "r1",
          .created_unix = 5,
          .model = "m",
          .system_fingerprint = "fp",
          .echo = {}};
}

TEST(EncodeCompletionsTest, AStreamIsExactlyTheDocumentedChunks) {
  ReplyOptions options = Options();
  options.stream = true;
  options.echo = {"Once"};
  const auto encoder = MakeCompletionsEncoder(options);
  std::string out;
  encoder->OnStart({}, out);
  encoder->OnDelta({.text = " upon"}, out);
  encoder->OnFinish({.reason = form::FinishReason::kStop}, out);
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
  encoder->OnStart({}, out);
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
  EXPECT_EQ(choice["logprobs"]["text_offset"], nlohmann::json::array({0, 2}));
}

// Encodes two answers to each of two prompts; the third is the last to end.
std::string PlayFour(ReplyOptions options) {
  options.num_choices = 4;
  options.echo = {"P", "Q"};
  const auto encoder = MakeCompletionsEncoder(std::move(options));
  std::string out;
  encoder->OnStart({}, out);
  for (const int choice : {3, 0, 1, 2}) {
    encoder->OnDelta({.text = std::to_string(choice), .choice = choice}, out);
    if (choice != 2)
      encoder->OnDelta({.choice = choice, .finish = form::FinishReason::kLength}, out);
  }
  encoder->OnDelta({.text = "!", .choice = 2}, out);
  encoder->OnFinish({.reason = form::FinishReason::kStop, .stats = {.num_output_tokens = 9}}, out);
  return out;
}

TEST(EncodeCompletionsTest, ChoicesStandInTheirOrderWithTheirOwnEchoAndReason) {
  const auto body = nlohmann::json::parse(PlayFour(Options()));
  ASSERT_EQ(body["choices"].size(), 4u);
  const std::vector<std::string> texts = {"P0", "P1", "Q2!", "Q3"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], texts[i]);
    EXPECT_EQ(body["choices"][i]["finish_reason"], i == 2 ? "stop" : "length");
  }
  EXPECT_EQ(body["usage"]["completion_tokens"], 9);
}

TEST(EncodeCompletionsTest, StreamedChoicesNameTheirIndexAndEndOnceEach) {
  ReplyOptions options = Options();
  options.stream = true;
  options.explain = true;
  const std::string out = PlayFour(options);
  std::vector<std::string> texts(4);
  std::vector<std::string> reasons(4);
  size_t num_explained = 0;
  for (size_t begin = 0; out.compare(begin, 12, "data: [DONE]") != 0;) {
    const size_t end = out.find("\n\n", begin);
    const auto chunk = nlohmann::json::parse(out.substr(begin + 6, end - begin - 6));
    const auto& choice = chunk["choices"].at(0);
    const size_t index = choice["index"];
    EXPECT_EQ(reasons[index], "") << "after its end";
    texts[index] += choice["text"];
    if (!choice["finish_reason"].is_null()) reasons[index] = choice["finish_reason"];
    num_explained += chunk.contains("kvgate") ? 1 : 0;
    begin = end + 2;
  }
  EXPECT_THAT(texts, ElementsAre("P0", "P1", "Q2!", "Q3"));
  EXPECT_THAT(reasons, ElementsAre("length", "length", "stop", "length"));
  EXPECT_EQ(num_explained, 1u);
  EXPECT_TRUE(out.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(out.find("[DONE]"), out.rfind("[DONE]"));
}

TEST(EncodeCompletionsTest, OffsetsCountWithinEachChoice) {
  ReplyOptions options = Options();
  options.logprobs = true;
  options.num_choices = 2;
  const auto encoder = MakeCompletionsEncoder(options);
  std::string out;
  for (const int choice : {0, 1, 0}) {
    encoder->OnDelta({.text = "ab",
                      .tokens = {{.token = {.bytes = "ab", .logprob = -0.5f}, .top = {}}},
                      .choice = choice},
                     out);
  }
  encoder->OnFinish({}, out);
  const auto choices = nlohmann::json::parse(out)["choices"];
  EXPECT_EQ(choices[0]["logprobs"]["text_offset"], nlohmann::json::array({0, 2}));
  EXPECT_EQ(choices[1]["logprobs"]["text_offset"], nlohmann::json::array({0}));
}

}  // namespace
}  // namespace kvgate::dialect::completions
