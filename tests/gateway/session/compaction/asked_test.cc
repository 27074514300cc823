#include "gateway/session/compaction/asked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvgate::session::compaction {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(AskedTest, AGlanceFindsWhatMayConcern) {
  for (const char* body :
       {R"({"input":[{"type":"compaction_trigger"}]})", R"({"compaction":{}})",
        R"({"input":[{"type":"context_compaction"}]})", R"({"context_management":[]})"}) {
    EXPECT_TRUE(MayConcern(body)) << body;
  }
  EXPECT_FALSE(MayConcern(R"({"input":"the compaction of soil"})"));
  EXPECT_FALSE(MayConcern(""));
}

TEST(AskedTest, AGlanceMissesNoPlace) {
  for (const std::string mark : {"\"compaction", "\"context_"}) {
    for (size_t size = 0; size < 70; ++size) {
      for (size_t at = 0; at + mark.size() <= size; ++at) {
        std::string body(size, '"');
        body.replace(at, mark.size(), mark);
        EXPECT_TRUE(MayConcern(body)) << size << " " << at;
        body[at + mark.size() - 1] = '"';
        EXPECT_FALSE(MayConcern(body)) << size << " " << at;
      }
    }
  }
}

TEST(AskedTest, ATriggerIsTheLastItem) {
  const auto asked = ReadAsked(Dialect::kResponses, false,
                               R"({"input":[{"role":"user"},{"type":"compaction_trigger"}]})");
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->surface, Surface::kTrigger);
  EXPECT_EQ(WithoutAsking(Dialect::kResponses,
                          R"({"model":"m","input":[{"a":1},{"type":"compaction_trigger"}]})"),
            R"({"model":"m","input":[{"a":1}]})");
  const auto wrong = ReadAsked(Dialect::kResponses, false,
                               R"({"input":[{"type":"compaction_trigger"},{"role":"user"}]})");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().field, "input[0]");
  const auto none = ReadAsked(Dialect::kResponses, false, R"({"input":"compaction_trigger"})");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->surface, Surface::kNone);
  EXPECT_FALSE(none->threshold);
}

TEST(AskedTest, ThePathAsksWhateverTheBody) {
  const auto asked = ReadAsked(Dialect::kResponses, true, R"({"input":"a"})");
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->surface, Surface::kCompact);
  const auto kept = ReadAsked(Dialect::kResponses, true, R"({"conversation":"conv_1"})");
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().field, "conversation");
}

TEST(AskedTest, ThresholdsOfResponses) {
  const auto asked = ReadAsked(
      Dialect::kResponses, false,
      R"({"input":"a","context_management":[{"type":"compaction","compact_threshold":5000}]})");
  ASSERT_TRUE(asked);
  ASSERT_TRUE(asked->threshold);
  EXPECT_EQ(asked->threshold->tokens, 5000);
  const auto its_own =
      ReadAsked(Dialect::kResponses, false,
                R"({"context_management":[{"type":"compaction","compact_threshold":null}]})");
  ASSERT_TRUE(its_own);
  EXPECT_EQ(its_own->threshold->tokens, 0);
  for (const auto& [body, field] :
       {std::pair(R"({"context_management":{}})", "context_management"),
        std::pair(R"({"context_management":[{"type":"x"}]})", "context_management.type"),
        std::pair(R"({"context_management":[{"type":"compaction","compact_threshold":-1}]})",
                  "context_management.compact_threshold")}) {
    const auto wrong = ReadAsked(Dialect::kResponses, false, body);
    ASSERT_FALSE(wrong) << body;
    EXPECT_EQ(wrong.error().field, field);
  }
}

std::string Summarize(std::string_view more) {
  return R"({"compaction":{"type":"summarize"},)" + std::string(more) +
         R"("messages":[{"role":"user","content":"a"}]})";
}

TEST(AskedTest, ASummaryOnDemandAndWhatItIsNotSentWith) {
  const auto asked =
      ReadAsked(Dialect::kMessages, false,
                R"({"compaction":{"type":"summarize","instructions":"short"},)"
                R"("messages":[{"role":"user","content":"a"}],"stop_sequences":[],)"
                R"("tool_choice":{"type":"auto"},"output_config":{"effort":"low"}})");
  ASSERT_TRUE(asked) << asked.error().ToString();
  EXPECT_EQ(asked->surface, Surface::kSummarize);
  EXPECT_EQ(asked->instructions, "short");
  for (const auto& [more, field] :
       {std::pair(R"("stop_sequences":["x"],)", "stop_sequences"),
        std::pair(R"("tool_choice":{"type":"any"},)", "tool_choice"),
        std::pair(R"("tool_choice":{"type":"tool","name":"x"},)", "tool_choice"),
        std::pair(R"("output_config":{"format":{}},)", "output_config.format"),
        std::pair(R"("output_config":{"task_budget":{"remaining":5}},)",
                  "output_config.task_budget.remaining")}) {
    const auto wrong = ReadAsked(Dialect::kMessages, false, Summarize(more));
    ASSERT_FALSE(wrong) << more;
    EXPECT_EQ(wrong.error().field, field);
  }
  const auto open = ReadAsked(
      Dialect::kMessages, false,
      R"({"compaction":{"type":"summarize"},"messages":[{"role":"user","content":"a"},)"
      R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}]})");
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().field, "messages");
  const auto empty =
      ReadAsked(Dialect::kMessages, false, R"({"compaction":{"type":"summarize"},"messages":[]})");
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().detail, StartsWith("compaction_nothing_to_summarize: "));
  const auto kind = ReadAsked(Dialect::kMessages, false, R"({"compaction":{"type":"x"}})");
  ASSERT_FALSE(kind);
  EXPECT_EQ(kind.error().field, "compaction.type");
  const auto words =
      ReadAsked(Dialect::kMessages, false,
                R"({"compaction":{"type":"summarize","instructions":3},"messages":[{}]})");
  ASSERT_FALSE(words);
  EXPECT_THAT(words.error().detail, HasSubstr("a string"));
}

TEST(AskedTest, ThresholdsOfMessages) {
  const auto asked =
      ReadAsked(Dialect::kMessages, false,
                R"({"context_management":{"edits":[{"type":"clear_thinking_20251015"},)"
                R"({"type":"compact_20260112","trigger":{"type":"input_tokens","value":60000},)"
                R"("pause_after_compaction":true,"instructions":"i"}]}})");
  ASSERT_TRUE(asked);
  ASSERT_TRUE(asked->threshold);
  EXPECT_EQ(asked->threshold->tokens, 60000);
  EXPECT_TRUE(asked->threshold->pauses);
  EXPECT_EQ(asked->threshold->instructions, "i");
  const auto least =
      ReadAsked(Dialect::kMessages, false,
                R"({"context_management":{"edits":[{"type":"compact_20260112","trigger":)"
                R"({"type":"input_tokens","value":49999}}]}})");
  ASSERT_FALSE(least);
  EXPECT_EQ(least.error().field, "context_management.edits.trigger.value");
  const auto its_own =
      ReadAsked(Dialect::kMessages, false,
                R"({"context_management":{"edits":[{"type":"compact_20260112"}]}})");
  ASSERT_TRUE(its_own);
  EXPECT_EQ(its_own->threshold->tokens, 150'000);
}

}  // namespace
}  // namespace kvgate::session::compaction
