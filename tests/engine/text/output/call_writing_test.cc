#include "engine/text/output/call_writing.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::output {
namespace {

TEST(CallWritingTest, AMarkIsWhereCallsBegin) {
  for (const Family& family : AllFamilies()) {
    for (const std::string_view chat_template : {"", "[ARGS] ```json <|START_ACTION|>"}) {
      const CallWriting writing = WritingOf(family, chat_template);
      EXPECT_TRUE((writing.begin + writing.head).starts_with(writing.mark)) << family.name;
      EXPECT_FALSE(writing.middle.empty()) << family.name;
    }
  }
}

TEST(CallWritingTest, OfTwoWaysTheTemplatesIsTaken) {
  EXPECT_EQ(WritingOf(FamilyNamed("mistral"), "[ARGS]").middle, "[ARGS]");
  EXPECT_EQ(WritingOf(FamilyNamed("mistral"), "").end, "]");
  EXPECT_NE(WritingOf(FamilyNamed("deepseek"), "```json").middle,
            WritingOf(FamilyNamed("deepseek"), "").middle);
}

}  // namespace
}  // namespace kvgate::output
