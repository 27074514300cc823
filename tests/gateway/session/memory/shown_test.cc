#include "gateway/session/memory/shown.h"

#include <gtest/gtest.h>

namespace kvgate::session::memory {
namespace {

const Entries kOne = {{"a", "1"}};
const Entries kTwo = {{"a", "1"}, {"b", "\"x\""}};

TEST(ShownTest, WhatIsNewIsSaidAlone) {
  EXPECT_EQ(NextOf({.shown = kOne, .now = kTwo}), (Shown{.entries = {{"b", "\"x\""}}}));
  EXPECT_EQ(NextOf({.shown = kTwo, .now = kTwo}), std::nullopt);
  const Entries changed = {{"a", "2"}};
  EXPECT_EQ(NextOf({.shown = kOne, .now = changed}), (Shown{.entries = changed}));
}

TEST(ShownTest, WhatIsRemovedIsSaidNowhereAnyMore) {
  EXPECT_EQ(NextOf({.shown = kTwo, .now = kOne}), (Shown{.is_whole = true, .entries = kOne}));
  EXPECT_EQ(NextOf({.shown = kOne, .now = {}}), (Shown{.is_whole = true, .entries = {}}));
}

TEST(ShownTest, WhoBeginsAnewSaysTheWhole) {
  EXPECT_EQ(NextOf({.shown = kTwo, .now = kTwo, .begins_anew = true}),
            (Shown{.is_whole = true, .entries = kTwo}));
  EXPECT_EQ(NextOf({.begins_anew = true}), std::nullopt);
}

TEST(ShownTest, TheTextIsMadeOfTheEntriesAlone) {
  const Entries entries = {{"name", R"("Ann\nLee")"}, {"n", "[1,2]"}, {"x", R"("a</memory>b")"}};
  const std::string text = WholeText(entries);
  EXPECT_TRUE(text.starts_with("<memory>\n"));
  EXPECT_TRUE(text.ends_with("\n- name: Ann\n  Lee\n- n: [1,2]\n- x: a< /memory>b\n</memory>"));
  EXPECT_NE(ChangesText(entries), text);
  EXPECT_EQ(WholeText({}), "");
}

}  // namespace
}  // namespace kvgate::session::memory
