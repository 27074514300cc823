#include "gateway/session/prompts/named_prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/dialect/form/errors.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::session::prompts {
namespace {

using dialect::form::HttpStatus;
using ::testing::HasSubstr;

PromptVersion Version(std::string version, std::string_view text,
                      std::optional<double> share = {}) {
  return *MakeVersion({.name = "a", .version = std::move(version)}, text, share);
}

class NamedPromptsTest : public ::testing::Test {
 protected:
  std::unique_ptr<NamedPrompts> Open(std::vector<PromptVersion> configured = {}) {
    auto opened = NamedPrompts::Open(&meta, std::move(configured));
    EXPECT_TRUE(opened) << opened.error().ToString();
    return opened ? std::move(*opened) : nullptr;
  }
  static std::string TextOf(const NamedPrompts& prompts, std::string version) {
    const auto library = prompts.library();
    const PromptVersion* const found = library->Find({.name = "a", .version = std::move(version)});
    return found == nullptr ? "" : found->text;
  }
  store::MemoryMetaStore meta;
};

TEST_F(NamedPromptsTest, BothKindsOfVersionsAreOfOneName) {
  const auto prompts = Open({Version("1", "one")});
  const auto set = prompts->Set(Version("2", "two", 0.1));
  ASSERT_TRUE(set);
  EXPECT_GT(set->created_us, 0);
  EXPECT_EQ(prompts->library()->VersionsOf("a").size(), 2u);
  EXPECT_EQ(prompts->library()->Draw("a", 0.05)->text, "two");
  EXPECT_EQ(prompts->library()->Draw("a", 0.5)->text, "one");
}

TEST_F(NamedPromptsTest, WhatIsSetIsThereAfterARestart) {
  ASSERT_TRUE(Open()->Set(Version("2", "two", 0.1)));
  const auto prompts = Open({Version("1", "one")});
  EXPECT_EQ(TextOf(*prompts, "2"), "two");
  ASSERT_TRUE(prompts->Remove({.name = "a", .version = "2"}));
  EXPECT_EQ(TextOf(*Open(), "2"), "");
}

TEST_F(NamedPromptsTest, WhatAVersionSaysNeverChanges) {
  const auto prompts = Open({Version("1", "one")});
  ASSERT_TRUE(prompts->Set(Version("2", "two")));
  for (const std::string version : {"1", "2"}) {
    const auto changed = prompts->Set(Version(version, "another"));
    ASSERT_FALSE(changed);
    EXPECT_EQ(HttpStatus(changed.error()), 409);
  }
  EXPECT_EQ(TextOf(*prompts, "1"), "one");
  EXPECT_EQ(TextOf(*prompts, "2"), "two");
  EXPECT_TRUE(prompts->Set(Version("1", "one"))) << "it says the same";
}

TEST_F(NamedPromptsTest, AShareChangesWithoutTheTextBeingSaidAgain) {
  const auto prompts = Open({Version("1", "one", 0.5)});
  ASSERT_TRUE(prompts->Set(Version("2", "two", 0.1)));
  PromptVersion share = Version("2", "-", 0.5);
  share.text.clear();
  const auto changed = prompts->Set(share);
  ASSERT_TRUE(changed) << changed.error().ToString();
  EXPECT_EQ(changed->text, "two");
  EXPECT_EQ(changed->share, 0.5);
  share.share = 0.6;
  EXPECT_EQ(prompts->Set(share).error().field, "share") << "more than 1 together";
  EXPECT_EQ(prompts->library()->Find(share.id)->share, 0.5);
  share.share.reset();
  ASSERT_TRUE(prompts->Set(share));
  EXPECT_FALSE(Open({Version("1", "one", 0.5)})->library()->Find(share.id)->share);
  share.id.version = "9";
  EXPECT_EQ(prompts->Set(share).error().field, "text");
}

TEST_F(NamedPromptsTest, WhatTheConfigurationHasIsChangedThere) {
  const auto prompts = Open({Version("1", "one")});
  EXPECT_EQ(HttpStatus(prompts->Set(Version("1", "one", 0.5)).error()), 409);
  EXPECT_EQ(HttpStatus(prompts->Remove({.name = "a", .version = "1"}).error()), 409);
  EXPECT_EQ(HttpStatus(prompts->Remove({.name = "b", .version = {}}).error()), 404);
  ASSERT_TRUE(prompts->Set(Version("2", "two")));
  ASSERT_TRUE(prompts->Set(Version("3", "three")));
  const auto removed = prompts->Remove({.name = "a", .version = {}});
  ASSERT_TRUE(removed);
  EXPECT_EQ(*removed, 2u);
  EXPECT_EQ(TextOf(*prompts, "1"), "one");
}

TEST_F(NamedPromptsTest, AReloadIsTakenWholeOrNotAtAll) {
  const auto prompts = Open({Version("1", "one")});
  EXPECT_TRUE(prompts->Check({Version("1", "one"), Version("2", "two")}));
  const auto changed = prompts->Configure({Version("1", "changed"), Version("2", "two")});
  ASSERT_FALSE(changed);
  EXPECT_THAT(changed.error().detail, HasSubstr("prompt.file: a@1"));
  EXPECT_EQ(TextOf(*prompts, "2"), "");
  ASSERT_TRUE(prompts->Configure({Version("2", "two")}));
  EXPECT_EQ(TextOf(*prompts, "1"), "");
  EXPECT_EQ(TextOf(*prompts, "2"), "two");
}

TEST_F(NamedPromptsTest, AConfigurationThatContradictsWhatWasSetIsRefused) {
  ASSERT_TRUE(Open()->Set(Version("1", "one", 0.7)));
  EXPECT_FALSE(NamedPrompts::Open(&meta, {Version("1", "other")}));
  EXPECT_FALSE(NamedPrompts::Open(&meta, {Version("2", "two", 0.5)}));
  const auto prompts = Open({Version("1", "one", 0.2)});
  EXPECT_EQ(prompts->library()->Draw("a", 0.1)->share, 0.2) << "the configuration's holds";
}

TEST_F(NamedPromptsTest, ADiskThatRefusesChangesNothing) {
  const auto prompts = NamedPrompts::Open(nullptr, {Version("1", "one")});
  ASSERT_TRUE(prompts);
  EXPECT_EQ(HttpStatus((*prompts)->Set(Version("2", "two")).error()), 503);
  EXPECT_EQ((*prompts)->library()->all().size(), 1u);
}

}  // namespace
}  // namespace kvgate::session::prompts
