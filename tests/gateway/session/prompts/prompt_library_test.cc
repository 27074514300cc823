#include "gateway/session/prompts/prompt_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>

namespace kvgate::session::prompts {
namespace {

using ::testing::HasSubstr;

PromptVersion Version(std::string name, std::string version, std::optional<double> share = {}) {
  const std::string text = fmt::format("You are {} {}.", name, version);
  const auto made =
      MakeVersion({.name = std::move(name), .version = std::move(version)}, text, share);
  EXPECT_TRUE(made);
  return *made;
}

std::shared_ptr<const PromptLibrary> Library(std::vector<PromptVersion> versions) {
  const auto library = PromptLibrary::Make(std::move(versions));
  EXPECT_TRUE(library) << library.error().ToString();
  return *library;
}

TEST(PromptLibraryTest, AVersionIsItsTextWithoutLineBreaksAtTheEnd) {
  const auto version = MakeVersion({.name = "a", .version = "1"}, " Say {{x}}. \r\n\n", 0.5);
  ASSERT_TRUE(version);
  EXPECT_EQ(version->text, " Say {{x}}. ");
  EXPECT_EQ(version->variables, std::vector<std::string>{"x"});
}

TEST(PromptLibraryTest, ATextThatNobodyCanUseIsRefused) {
  EXPECT_EQ(MakeVersion({}, " \n", {}).error().field, "text");
  EXPECT_EQ(MakeVersion({}, "\xFF", {}).error().field, "text");
  EXPECT_EQ(MakeVersion({}, std::string(kTextBytesMax + 1, 'a'), {}).error().field, "text");
  EXPECT_EQ(MakeVersion({}, "a", 1.5).error().field, "share");
  EXPECT_EQ(MakeVersion({}, "a", -0.1).error().field, "share");
  std::string many;
  for (int i = 0; i < 65; ++i) many += fmt::format("{{{{v{}}}}}", i);
  EXPECT_EQ(MakeVersion({}, many, {}).error().field, "text");
}

TEST(PromptLibraryTest, VersionsAreFoundByNameTheOldestFirst) {
  const auto library =
      Library({Version("b", "1"), Version("a", "10"), Version("a", "9"), Version("a", "2")});
  ASSERT_EQ(library->VersionsOf("a").size(), 3u);
  EXPECT_EQ(library->VersionsOf("a")[0].id.version, "2");
  EXPECT_EQ(library->VersionsOf("a")[2].id.version, "10");
  EXPECT_EQ(library->Find({.name = "a", .version = "9"})->text, "You are a 9.");
  EXPECT_EQ(library->Find({.name = "a", .version = "1"}), nullptr);
  EXPECT_TRUE(library->VersionsOf("c").empty());
  EXPECT_EQ(library->Draw("c", 0), nullptr);
}

TEST(PromptLibraryTest, SharesOfAnotherNameDoNotCount) {
  EXPECT_TRUE(PromptLibrary::Make({Version("a", "1", 0.7), Version("b", "1", 0.7)}));
  const auto more = PromptLibrary::Make({Version("a", "1", 0.7), Version("a", "2", 0.31)});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().field, "share");
  EXPECT_THAT(more.error().detail, HasSubstr("'a'"));
  EXPECT_TRUE(PromptLibrary::Make({Version("a", "1", 0.1), Version("a", "2", 0.2),
                                   Version("a", "3", 0.3), Version("a", "4", 0.4)}));
}

TEST(PromptLibraryTest, TheNewestWithoutAShareGetsWhatTheSharesLeave) {
  const auto canary = Library({Version("a", "2"), Version("a", "3"), Version("a", "4", 0.1)});
  EXPECT_EQ(canary->Draw("a", 0.05)->id.version, "4");
  EXPECT_EQ(canary->Draw("a", 0.1)->id.version, "3");
  EXPECT_EQ(canary->Draw("a", 0.99)->id.version, "3");
  const auto all = Library({Version("a", "3", 0.5), Version("a", "4", 0.3)});
  EXPECT_EQ(all->Draw("a", 0.4)->id.version, "3");
  EXPECT_EQ(all->Draw("a", 0.6)->id.version, "4");
  EXPECT_EQ(all->Draw("a", 0.9)->id.version, "4") << "the newest, where all have shares";
  const auto none = Library({Version("a", "1"), Version("a", "2", 0)});
  EXPECT_EQ(none->Draw("a", 0)->id.version, "1") << "a share of 0 begins nothing";
}

TEST(PromptLibraryTest, AShareThatGrowsKeepsWhatItHad) {
  const auto small = Library({Version("a", "1"), Version("a", "2", 0.1)});
  const auto large = Library({Version("a", "1"), Version("a", "2", 0.6)});
  for (double place = 0; place < 1; place += 0.01) {
    if (small->Draw("a", place)->id.version == "2") {
      EXPECT_EQ(large->Draw("a", place)->id.version, "2");
    }
  }
}

TEST(PromptLibraryTest, DrawsAreTheSameAgainAndSpreadEvenly) {
  EXPECT_EQ(PlaceOf("t", "a", "k"), PlaceOf("t", "a", "k"));
  EXPECT_NE(PlaceOf("t", "ab", "k"), PlaceOf("t", "a", "bk"));
  EXPECT_NE(PlaceOf("t", "a", "k"), PlaceOf("u", "a", "k"));
  const auto library = Library({Version("a", "1"), Version("a", "2", 0.25)});
  int drawn = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    drawn += library->Draw("a", PlaceOf("t", "a", std::to_string(i)))->id.version == "2" ? 1 : 0;
  }
  EXPECT_NEAR(drawn, kDraws / 4, 150);
}

}  // namespace
}  // namespace kvgate::session::prompts
