#include "gateway/session/prompts/remembered_prompt.h"

#include <gtest/gtest.h>

#include "tests/gateway/service/kept_responses.h"
#include "tests/gateway/session/session_turns.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::session::prompts {
namespace {

class RememberedPromptTest : public ::testing::Test {
 protected:
  void Add(log::LoggedTurn turn, std::optional<log::TurnPrompt> prompt = {}) {
    turn.prompt = std::move(prompt);
    const auto added =
        log.Append({.tenant = "t", .key = "k"}, log::Dialect::kChatCompletions, turn);
    EXPECT_TRUE(added) << added.error().ToString();
  }
  std::optional<log::TurnPrompt> Of(std::string_view key = "k", std::string_view tenant = "t") {
    const auto found = RememberedPrompt(log, {.tenant = tenant, .key = key});
    EXPECT_TRUE(found) << found.error().ToString();
    return found ? *found : std::nullopt;
  }
  const log::TurnPrompt kPrompt = {.name = "a", .version = "1", .values = R"({"x":1})"};
  store::MemoryMetaStore meta;
  std::unique_ptr<store::meta::TurnStore> turns = test::OpenTurns(meta);
  log::SessionLog log{turns.get()};
};

TEST_F(RememberedPromptTest, ASessionSaysWithWhichItBegan) {
  EXPECT_FALSE(Of());
  Add(test::TurnOf(1, {"one"}), kPrompt);
  Add(test::TurnOf(2, {"two"}));
  EXPECT_EQ(Of(), kPrompt);
  EXPECT_FALSE(Of("k", "another tenant"));
}

TEST_F(RememberedPromptTest, OneThatBeganWithoutSaysSo) {
  Add(test::TurnOf(1, {"one"}));
  ASSERT_TRUE(Of());
  EXPECT_TRUE(Of()->is_none());
}

TEST_F(RememberedPromptTest, TheNewestThatIsSaidHolds) {
  Add(test::TurnOf(1, {"one"}), kPrompt);
  Add(test::TurnOf(2, {"two"}), log::TurnPrompt());
  EXPECT_TRUE(Of()->is_none());
  Add(test::TurnOf(3, {"three"}), log::TurnPrompt{.name = "b", .version = "2"});
  EXPECT_EQ(Of()->name, "b");
  EXPECT_EQ(Of()->values, "");
}

TEST_F(RememberedPromptTest, WithoutALogNothingIsRemembered) {
  const log::SessionLog none(nullptr);
  const auto found = RememberedPrompt(none, {.tenant = "t", .key = "k"});
  ASSERT_TRUE(found);
  EXPECT_FALSE(*found);
}

}  // namespace
}  // namespace kvgate::session::prompts
