#include "engine/text/output/families.h"

#include <gtest/gtest.h>

#include <set>

namespace kvgate::output {
namespace {

TEST(FamiliesTest, ATemplateIsRecognisedByItsMarks) {
  const auto of = [](const std::string& marks) {
    return RecogniseFamily("{% for tool in tools %}{% endfor %}" + marks);
  };
  EXPECT_EQ(of("<tool_call>\n{\"name\":"), "hermes");
  EXPECT_EQ(of("<tool_call>\n<function=' + name + '>\n<parameter="), "qwen3-coder");
  EXPECT_EQ(of("<tool_call>{{ name }}<arg_key>"), "glm");
  EXPECT_EQ(of("<|start_header_id|>assistant<|end_header_id|>"), "llama3");
  EXPECT_EQ(of("<|start_header_id|><function=x><|python_tag|>"), "functionary-3.1");
  EXPECT_EQ(of("[INST][TOOL_CALLS]"), "mistral");
  EXPECT_EQ(of("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"), "deepseek");
  EXPECT_EQ(of("<|tool_calls_section_begin|><|tool_call_begin|>"), "kimi");
  EXPECT_EQ(of("<|START_OF_TURN_TOKEN|>Action:"), "command-r");
  EXPECT_EQ(of("<|start|>assistant<|channel|>"), "harmony");
  EXPECT_EQ(of(">>>all\n"), "functionary-3.2");
  EXPECT_EQ(of("<|tool_list_start|>["), "lfm2");
  EXPECT_EQ(of("<|tool|>{{ tools }}<|/tool|>"), "phi");
  EXPECT_EQ(of("[INST]"), "generic");
}

TEST(FamiliesTest, ATemplateWithoutToolsGetsThemAsText) {
  EXPECT_EQ(RecogniseFamily("<|start_header_id|>{{ m.content }}"), "generic");
  EXPECT_EQ(RecogniseFamily(""), "generic");
}

TEST(FamiliesTest, EachNameIsThereOnce) {
  std::set<std::string_view> names;
  for (const Family& family : AllFamilies()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_EQ(&FamilyNamed(family.name), &family);
  }
}

TEST(FamiliesTest, CallsAsTextLookAsTheFamilyKnowsThem) {
  EXPECT_EQ(FamilyNamed("lfm2").style, CallStyle::kPython);
  EXPECT_EQ(FamilyNamed("phi").style, CallStyle::kList);
  EXPECT_EQ(FamilyNamed("kimi").style, CallStyle::kKimi);
  EXPECT_EQ(FamilyNamed("hermes").style, CallStyle::kTags);
  const Family& deepseek = FamilyNamed("deepseek");
  EXPECT_NE(ExampleOf(deepseek, "x ```json y").find("```json"), std::string_view::npos);
  EXPECT_EQ(ExampleOf(deepseek, "x").find("```json"), std::string_view::npos);
  EXPECT_NE(ExampleOf(deepseek, "x"), "");
  EXPECT_EQ(ExampleOf(FamilyNamed("hermes"), "x ```json"), "");
}

}  // namespace
}  // namespace kvgate::output
