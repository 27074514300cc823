#include "gateway/session/prompts/beginnings.h"

#include <gtest/gtest.h>

namespace kvgate::session::prompts {
namespace {

std::shared_ptr<const PromptLibrary> Library(std::optional<double> share_of_new) {
  std::vector<PromptVersion> versions = {
      *MakeVersion({.name = "a", .version = "1"}, "one", {}),
      *MakeVersion({.name = "a", .version = "2"}, "two", share_of_new)};
  return *PromptLibrary::Make(std::move(versions));
}

class BeginningsTest : public ::testing::Test {
 protected:
  std::string Of(const PromptLibrary& library, std::string opening, std::string answered = {},
                 std::string_view tenant = "t") {
    const PromptVersion* const version = beginnings.Choose(
        library, "a",
        {.tenant = tenant, .opening = std::move(opening), .answered = std::move(answered)});
    return version == nullptr ? "" : version->id.version;
  }
  const std::shared_ptr<const PromptLibrary> before = Library(0);
  const std::shared_ptr<const PromptLibrary> after = Library(1);
  Beginnings beginnings;
};

TEST_F(BeginningsTest, ARollOutMovesWhatBeginsAndNothingElse) {
  EXPECT_EQ(Of(*before, "hello"), "1");
  EXPECT_EQ(Of(*before, "hello", "hi"), "1");
  EXPECT_EQ(Of(*after, "hello", "hi"), "1") << "it goes on";
  EXPECT_EQ(Of(*after, "hello", "hi"), "1");
  EXPECT_EQ(Of(*after, "another"), "2");
  EXPECT_EQ(Of(*after, "another", "hi"), "2");
}

TEST_F(BeginningsTest, AnotherThatBeginsLikeItDoesNotMoveIt) {
  EXPECT_EQ(Of(*before, "hello"), "1");
  EXPECT_EQ(Of(*before, "hello", "first answer"), "1");
  EXPECT_EQ(Of(*after, "hello"), "2") << "it begins now";
  EXPECT_EQ(Of(*after, "hello", "first answer"), "1");
  EXPECT_EQ(Of(*after, "hello", "second answer"), "2");
}

TEST_F(BeginningsTest, TheSecondTurnFindsItsBeginningAfterARollOut) {
  EXPECT_EQ(Of(*before, "hello"), "1");
  EXPECT_EQ(Of(*after, "hello", "hi"), "1");
}

TEST_F(BeginningsTest, TenantsAndNamesAreApart) {
  EXPECT_EQ(Of(*before, "hello"), "1");
  EXPECT_EQ(Of(*after, "hello", "hi", "u"), "2");
  EXPECT_EQ(beginnings.Choose(*before, "b", {.tenant = "t", .opening = "hello"}), nullptr);
}

TEST_F(BeginningsTest, AVersionThatIsGoneIsDrawnAnew) {
  EXPECT_EQ(Of(*after, "hello"), "2");
  const auto only_one =
      *PromptLibrary::Make({*MakeVersion({.name = "a", .version = "1"}, "x", {})});
  EXPECT_EQ(Of(*only_one, "hello", "hi"), "1");
}

}  // namespace
}  // namespace kvgate::session::prompts
