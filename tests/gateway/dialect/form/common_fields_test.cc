#include "gateway/dialect/form/common_fields.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gateway/dialect/completions/completions.h"

namespace kvgate::dialect::form {
namespace {

using completions::DecodeCompletions;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<CompletionRequest> Decode(const std::string& fields) {
  return DecodeCompletions(R"({"model":"m","prompt":"p")" + fields + "}", {});
}

struct BadField {
  const char* json;
  const char* field;
  const char* message;
};

class BadCommonFieldTest : public ::testing::TestWithParam<BadField> {};

TEST_P(BadCommonFieldTest, IsRefusedByNameWithTheReason) {
  const BadField& bad = GetParam();
  const auto decoded = Decode(bad.json);
  ASSERT_FALSE(decoded) << bad.json;
  EXPECT_EQ(decoded.error().field, bad.field);
  EXPECT_THAT(decoded.error().detail, HasSubstr(bad.message));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadCommonFieldTest,
    ::testing::Values(
        BadField{R"(,"max_tokens":"5")", "max_tokens", "expected an integer, but got a string"},
        BadField{R"(,"max_tokens":-1)", "max_tokens", "must be between 0 and"},
        BadField{R"(,"max_tokens":1.5)", "max_tokens", "expected an integer, but got a number"},
        BadField{R"(,"max_tokens":1e300)", "max_tokens", "must be between"},
        BadField{R"(,"max_tokens":18446744073709551615)", "max_tokens", "must be between"},
        BadField{R"(,"temperature":"hot")", "temperature", "expected a number"},
        BadField{R"(,"temperature":2.1)", "temperature", "between 0 and 2"},
        BadField{R"(,"top_p":1.01)", "top_p", "between 0 and 1"},
        BadField{R"(,"min_p":-0.1)", "min_p", "between 0 and 1"},
        BadField{R"(,"top_k":-2)", "top_k", "between -1 and"},
        BadField{R"(,"seed":"x")", "seed", "expected an integer"},
        BadField{R"(,"stop":5)", "stop", "a string or an array of strings"},
        BadField{R"(,"stop":["a",""])", "stop[1]", "must not be empty"},
        BadField{R"(,"stop":["a",5])", "stop[1]", "expected a string"},
        BadField{R"(,"stop":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"])",
                 "stop", "at most 16"},
        BadField{R"(,"stream":"yes")", "stream", "expected a boolean"},
        BadField{R"(,"stream_options":{})", "stream_options", "only allowed when stream is true"},
        BadField{R"(,"stream":true,"stream_options":[])", "stream_options", "expected an object"},
        BadField{R"(,"stream":true,"stream_options":{"include_usage":1})",
                 "stream_options.include_usage", "expected a boolean"},
        BadField{R"(,"ignore_eos":1)", "ignore_eos", "expected a boolean"},
        BadField{R"(,"user":7)", "user", "expected a string"},
        BadField{R"(,"n":0)", "n", "between 1 and"},
        BadField{R"(,"n":129)", "n", "between 1 and 128"},
        BadField{R"(,"n":"2")", "n", "expected an integer"},
        BadField{R"(,"presence_penalty":2.5)", "presence_penalty", "between -2 and 2"},
        BadField{R"(,"frequency_penalty":-2.1)", "frequency_penalty", "between -2 and 2"},
        BadField{R"(,"repetition_penalty":0)", "repetition_penalty", "between 0.01 and 100"},
        BadField{R"(,"repeat_penalty":"x")", "repeat_penalty", "expected a number"},
        BadField{R"(,"repeat_penalty":1.1,"repetition_penalty":1.1)", "repetition_penalty",
                 "another name"},
        BadField{R"(,"repeat_last_n":-2)", "repeat_last_n", "between -1 and"},
        BadField{R"(,"typical_p":1.5)", "typical_p", "between 0 and 1"},
        BadField{R"(,"top_n_sigma":-2)", "top_n_sigma", "between -1 and 100"},
        BadField{R"(,"xtc_probability":-0.1)", "xtc_probability", "between 0 and 1"},
        BadField{R"(,"xtc_threshold":true)", "xtc_threshold", "expected a number"},
        BadField{R"(,"logit_bias":[])", "logit_bias", "expected an object"},
        BadField{R"(,"logit_bias":{"the":1})", "logit_bias", "'the' is not"},
        BadField{R"(,"logit_bias":{"":1})", "logit_bias", "'' is not"},
        BadField{R"(,"logit_bias":{"-1":1})", "logit_bias", "'-1' is not"},
        BadField{R"(,"logit_bias":{"1.5":1})", "logit_bias", "'1.5' is not"},
        BadField{R"(,"logit_bias":{"99999999999":1})", "logit_bias", "'99999999999' is not"},
        BadField{R"(,"logit_bias":{"5":1,"05":2})", "logit_bias", "has 5 twice"},
        BadField{R"(,"logit_bias":{"5":100.5})", "logit_bias.5", "between -100 and 100"},
        BadField{R"(,"logit_bias":{"5":null})", "logit_bias.5", "expected a number"},
        BadField{R"(,"response_format":{"type":"xml"})", "response_format.type",
                 "must be one of 'text', 'json_object', 'json_schema'"},
        BadField{R"(,"response_format":{"type":"json_schema"})", "response_format.json_schema",
                 "Missing"},
        BadField{R"(,"response_format":{"type":"json_schema","json_schema":{"name":"n"}})",
                 "response_format.json_schema.schema", "Missing"},
        BadField{R"(,"response_format":{"type":"json_schema","json_schema":{"schema":[]}})",
                 "response_format.json_schema.schema", "expected a JSON schema"},
        BadField{R"(,"response_format":{"type":"json_schema","json_schema":{"strict":1}})",
                 "response_format.json_schema.strict", "expected a boolean"},
        BadField{R"(,"grammar":7)", "grammar", "expected a string"},
        BadField{R"(,"json_schema":"x")", "json_schema", "expected a JSON schema"},
        BadField{R"(,"response_format":{"type":"json_object"},"grammar":"root ::= \"a\"")",
                 "grammar", "together with 'response_format'"},
        BadField{R"(,"response_format":{})", "response_format.type", "Missing"}));

TEST(CommonFieldsTest, TheFormOfTheAnswerArrivesWithItsPlace) {
  const auto output = [](std::string_view fields) {
    const auto decoded = Decode(std::string(fields));
    EXPECT_TRUE(decoded) << decoded.error().ToString();
    return decoded ? decoded->output : OutputFormat();
  };
  const OutputFormat schema =
      output(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,)"
             R"("schema":{ "type" : "object", "properties":{"b":{},"a":{"const":0.5}} }}})");
  EXPECT_EQ(schema.kind, OutputKind::kJsonSchema);
  EXPECT_EQ(schema.text, R"({"type":"object","properties":{"b":{},"a":{"const":0.5}}})");
  EXPECT_EQ(schema.field, "response_format.json_schema.schema");
  EXPECT_EQ(output(R"(,"response_format":{"type":"json_object"})").kind, OutputKind::kJsonObject);
  EXPECT_EQ(output(R"(,"response_format":{"type":"json_object","schema":{}})").field,
            "response_format.schema");
  EXPECT_EQ(output(R"(,"json_schema":true)").text, "true");
  const OutputFormat grammar = output(R"(,"grammar":"root ::= \"a\"","response_format":null)");
  EXPECT_EQ(grammar.kind, OutputKind::kGbnf);
  EXPECT_EQ(grammar.text, "root ::= \"a\"");
  EXPECT_EQ(output(R"(,"grammar":"","response_format":{"type":"text"})").kind,
            OutputKind::kAnyText);
}

TEST(CommonFieldsTest, TheModelIsRequired) {
  const auto decoded = DecodeCompletions(R"({"prompt":"p"})", {});
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().field, "model");
}

TEST(CommonFieldsTest, NullMeansAbsentAndUnknownFieldsAreIgnored) {
  const auto decoded = Decode(
      R"(,"max_tokens":null,"temperature":null,"stop":null,"stream":null,"stream_options":null,)"
      R"("logit_bias":null,"n":null,"seed":null,"response_format":null,"something":{"new":[1]})");
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  EXPECT_FALSE(decoded->max_tokens);
  EXPECT_FALSE(decoded->seed);
  EXPECT_EQ(decoded->temperature, 1.0f);
  EXPECT_FALSE(decoded->stream);
}

TEST(CommonFieldsTest, ValuesArriveAsSent) {
  const auto decoded =
      Decode(R"(,"max_tokens":7.0,"temperature":0,"top_p":0.5,"top_k":40,"min_p":0.05,"seed":-1,)"
             R"("stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},)"
             R"("ignore_eos":true,"presence_penalty":0.5,"frequency_penalty":-2,"n":3,)"
             R"("repetition_penalty":1.25,"repeat_last_n":64,"typical_p":0.9,"top_n_sigma":1.5,)"
             R"("xtc_probability":0.5,"xtc_threshold":0.25,"logit_bias":{"9":-100,"7":2.5},)"
             R"("response_format":{"type":"text"})");
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  EXPECT_EQ(decoded->max_tokens, 7);
  EXPECT_EQ(decoded->temperature, 0.0f);
  EXPECT_EQ(decoded->top_p, 0.5f);
  EXPECT_EQ(decoded->top_k, 40);
  EXPECT_EQ(decoded->min_p, 0.05f);
  EXPECT_EQ(decoded->seed, 18446744073709551615ull);
  EXPECT_THAT(decoded->stop, ElementsAre("a", "b"));
  EXPECT_TRUE(decoded->stream);
  EXPECT_TRUE(decoded->include_usage);
  EXPECT_TRUE(decoded->ignore_eos);
  EXPECT_EQ(decoded->num_choices, 3);
  EXPECT_EQ(decoded->presence_penalty, 0.5f);
  EXPECT_EQ(decoded->frequency_penalty, -2.0f);
  EXPECT_EQ(decoded->repetition_penalty, 1.25f);
  EXPECT_EQ(decoded->repeat_last_n, 64);
  EXPECT_EQ(decoded->typical_p, 0.9f);
  EXPECT_EQ(decoded->top_n_sigma, 1.5f);
  EXPECT_EQ(decoded->xtc_probability, 0.5f);
  EXPECT_EQ(decoded->xtc_threshold, 0.25f);
  ASSERT_EQ(decoded->logit_bias.size(), 2u);
  EXPECT_EQ(decoded->logit_bias[0].token, 7);
  EXPECT_EQ(decoded->logit_bias[0].bias, 2.5f);
  EXPECT_EQ(decoded->logit_bias[1].token, 9);
  EXPECT_EQ(decoded->logit_bias[1].bias, -100.0f);
}

TEST(CommonFieldsTest, TheSamplersAreOffWhereNothingIsSaid) {
  const auto decoded = Decode("");
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  EXPECT_EQ(decoded->num_choices, 1);
  EXPECT_EQ(decoded->repetition_penalty, 1.0f);
  EXPECT_EQ(decoded->repeat_last_n, -1);
  EXPECT_EQ(decoded->typical_p, 1.0f);
  EXPECT_EQ(decoded->top_n_sigma, 0.0f);
  EXPECT_EQ(decoded->xtc_probability, 0.0f);
  EXPECT_TRUE(decoded->logit_bias.empty());
}

TEST(CommonFieldsTest, LlamaCppsNameOfTheRepetitionPenaltyIsTaken) {
  const auto decoded = Decode(R"(,"repeat_penalty":1.5)");
  ASSERT_TRUE(decoded) << decoded.error().ToString();
  EXPECT_EQ(decoded->repetition_penalty, 1.5f);
}

TEST(CommonFieldsTest, TooManyLogitBiasesAreRefused) {
  std::string biases = R"("0":1)";
  for (int i = 1; i < 1024; ++i) biases += fmt::format(R"(,"{}":1)", i);
  EXPECT_TRUE(Decode(fmt::format(R"(,"logit_bias":{{{}}})", biases)));
  const auto decoded = Decode(fmt::format(R"(,"logit_bias":{{{},"1024":1}})", biases));
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().field, "logit_bias");
  EXPECT_THAT(decoded.error().detail, HasSubstr("at most 1024"));
}

TEST(CommonFieldsTest, ALongStopStringIsRefused) {
  const auto decoded = Decode(fmt::format(R"(,"stop":"{}")", std::string(5000, 'x')));
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().field, "stop");
}

}  // namespace
}  // namespace kvgate::dialect::form
