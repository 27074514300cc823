#include "gateway/session/prompts/prompt_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/dialect/form/errors.h"

namespace kvgate::session::prompts {
namespace {

using ::testing::HasSubstr;

class PromptChoiceTest : public ::testing::Test {
 protected:
  ChoiceArgs Args(std::string_view ask) {
    return {.library = *library,
            .beginnings = beginnings,
            .ask = *ReadPromptName(ask),
            .conversation = {.tenant = "t", .opening = "hello"}};
  }
  static log::TurnPrompt Began(std::string version, std::string values = {}) {
    return {.name = "a", .version = std::move(version), .values = std::move(values)};
  }
  static std::string VersionOf(const Result<PromptChoice>& choice) {
    return choice ? choice->prompt.version : choice.error().detail;
  }

  std::shared_ptr<const PromptLibrary> library =
      *PromptLibrary::Make({*MakeVersion({.name = "a", .version = "1"}, "one {{x}}", 0),
                            *MakeVersion({.name = "a", .version = "2"}, "two", {}),
                            *MakeVersion({.name = "b", .version = "1"}, "other", {})});
  Beginnings beginnings;
};

TEST_F(PromptChoiceTest, ANameAloneGetsWhatTheRollOutSays) {
  const auto choice = ChoosePrompt(Args("a"));
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->prompt, Began("2"));
  EXPECT_EQ(choice->text, "two");
}

TEST_F(PromptChoiceTest, AVersionIsTaken) {
  ChoiceArgs args = Args("a@1");
  args.values = R"({"x":1})";
  const auto choice = ChoosePrompt(args);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->prompt, Began("1", R"({"x":1})"));
}

TEST_F(PromptChoiceTest, UnknownNamesAndVersionsAreNotFound) {
  const auto name = ChoosePrompt(Args("c"));
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(name.error().field, kPromptHeader);
  const auto version = ChoosePrompt(Args("a@9"));
  ASSERT_FALSE(version);
  EXPECT_THAT(version.error().detail, HasSubstr("it has 1, 2"));
}

TEST_F(PromptChoiceTest, WhatHasBegunGoesOnWhateverTheRollOutSays) {
  ChoiceArgs args = Args("a");
  args.remembered = Began("1", R"({"x":"kept"})");
  const auto choice = ChoosePrompt(args);
  ASSERT_TRUE(choice) << choice.error().ToString();
  EXPECT_EQ(choice->prompt, *args.remembered) << "its values too";
  args.ask = *ReadPromptName("a@1");
  EXPECT_EQ(VersionOf(ChoosePrompt(args)), "1");
}

TEST_F(PromptChoiceTest, AnotherVersionOrPromptIsAConflictUnlessItIsMeant) {
  for (const std::string_view ask : {"a@2", "b", "b@1"}) {
    ChoiceArgs args = Args(ask);
    args.remembered = Began("1", R"({"x":1})");
    const auto refused = ChoosePrompt(args);
    ASSERT_FALSE(refused) << ask;
    EXPECT_EQ(dialect::form::HttpStatus(refused.error()), 409);
    EXPECT_THAT(refused.error().detail, HasSubstr("a@1"));
    args.may_differ = true;
    EXPECT_TRUE(ChoosePrompt(args)) << ask;
  }
}

TEST_F(PromptChoiceTest, WhatBeganWithoutAPromptMayNameOne) {
  ChoiceArgs args = Args("a");
  args.remembered = log::TurnPrompt();
  EXPECT_EQ(VersionOf(ChoosePrompt(args)), "2");
}

TEST_F(PromptChoiceTest, ASessionKeepsItsValues) {
  ChoiceArgs args = Args("a");
  args.remembered = Began("1", R"({"x":1})");
  args.values = R"({"x":2})";
  EXPECT_TRUE(ChoosePrompt(args)) << "a chain of responses has each request's own";
  args.is_session = true;
  const auto refused = ChoosePrompt(args);
  ASSERT_FALSE(refused);
  EXPECT_EQ(dialect::form::HttpStatus(refused.error()), 409);
  EXPECT_EQ(refused.error().field, kValuesHeader);
  args.values = R"({ "x": 1 })";
  EXPECT_TRUE(ChoosePrompt(args));
}

TEST_F(PromptChoiceTest, ASessionGoesOnWithAVersionThatIsGone) {
  ChoiceArgs args = Args("a");
  args.remembered = Began("0");
  EXPECT_FALSE(ChoosePrompt(args)) << "nobody has its text";
  args.is_session = args.is_plain = true;
  const auto choice = ChoosePrompt(args);
  ASSERT_TRUE(choice);
  EXPECT_TRUE(choice->is_gone);
  EXPECT_EQ(choice->prompt, Began("0"));
  args.is_plain = false;
  EXPECT_EQ(ChoosePrompt(args).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvgate::session::prompts
