#include "gateway/session/prompts/prompt_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/session/prompts/prompt_name.h"

namespace kvgate::session::prompts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PromptValuesTest, NamesInDoubleBracesAreVariablesInTheirOrder) {
  EXPECT_THAT(VariablesOf("{{b}} and {{ a }}, {{b}} again, {{{c_2}}}"),
              ElementsAre("b", "a", "c_2"));
  EXPECT_THAT(VariablesOf("{{}} {{ }} {{two words}} {{1a}} {a} {{a"), IsEmpty());
  EXPECT_THAT(VariablesOf("{{no name}} {{name}}"), ElementsAre("name"));
  EXPECT_THAT(VariablesOf(std::string(1 << 20, '{') + "}}"), IsEmpty());
  EXPECT_THAT(VariablesOf("{{" + std::string(65, 'a') + "}}"), IsEmpty());
}

TEST(PromptValuesTest, ValuesAreTextsNumbersAndBooleans) {
  const auto values = ReadValues(R"({"a":"x\n\"y","b":2.5,"c":true})");
  ASSERT_TRUE(values);
  EXPECT_EQ(values->at("a"), R"("x\n\"y")");
  EXPECT_EQ(values->at("b"), "2.5");
  EXPECT_EQ(values->at("c"), "true");
  EXPECT_TRUE(ReadValues("")->empty());
}

TEST(PromptValuesTest, AnythingElseIsRefusedAndTheHeaderNamed) {
  for (const std::string_view json :
       {"x", "[]", "3", R"({"a":null})", R"({"a":[1]})", R"({"a":{}})", R"({"a b":1})", "{"}) {
    const auto values = ReadValues(json);
    ASSERT_FALSE(values) << json;
    EXPECT_EQ(values.error().field, kValuesHeader);
  }
}

TEST(PromptValuesTest, TheirOrderIsThatOfTheTextWhateverTheRequestSays) {
  const std::vector<std::string> variables = {"b", "a"};
  const auto one = ArrangeValues(variables, *ReadValues(R"({"a":1,"b":"x"})"));
  const auto other = ArrangeValues(variables, *ReadValues(R"({ "b": "x", "a": 1 })"));
  ASSERT_TRUE(one && other);
  EXPECT_EQ(*one, R"({"b":"x","a":1})");
  EXPECT_EQ(*one, *other);
  EXPECT_EQ(*ArrangeValues({}, {}), "");
}

TEST(PromptValuesTest, AMissingAndAnUnknownVariableAreNamed) {
  const auto missing = ArrangeValues({"a", "b"}, *ReadValues(R"({"a":1})"));
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().detail, HasSubstr("'b'"));
  EXPECT_EQ(missing.error().field, kValuesHeader);
  const auto unknown = ArrangeValues({"a"}, *ReadValues(R"({"a":1,"z":1})"));
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().detail, HasSubstr("'z'"));
}

TEST(PromptValuesTest, AValueCannotPassForAnotherLine) {
  EXPECT_EQ(ValuesBlock(R"({"b":"x\nc: 9","a":1})"),
            "The names in double braces above stand for:\nb: \"x\\nc: 9\"\na: 1");
  EXPECT_EQ(ValuesBlock(""), "");
}

}  // namespace
}  // namespace kvgate::session::prompts
