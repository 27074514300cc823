#include "gateway/prompt/templates/templates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gateway/prompt/templates/masked_line.h"

namespace kvgate::prompt::templates {
namespace {

LineForm FormIn(const std::string& text, size_t index) {
  return FormOf(Place::kSystem, TextLines(text, nullptr), index, text);
}
std::string Text(const std::string& line) { return "rules\n" + line + "\nend"; }

// A change of the line that stands behind `front`.
Observation Change(const std::string& before, const std::string& now,
                   const std::string& front = "") {
  Observation seen{.before = FormIn(front + Text(before), 1),
                   .now = FormIn(front + Text(now), 1),
                   .pattern = MaskLine(now).text,
                   .line_tokens = 10,
                   .stake_tokens = 1000};
  seen.change = seen.before.mask == seen.now.mask ? LineChange::kValues : LineChange::kWords;
  return seen;
}

class TemplatesTest : public ::testing::Test {
 protected:
  void See(const std::string& before, const std::string& now) {
    templates_.Learn(scope_, {.changes = {Change(before, now)}, .beginnings = {}});
  }
  std::shared_ptr<const Slot> Find(const std::string& line) {
    return templates_.Known(scope_)->Find(FormIn(Text(line), 1));
  }
  Templates templates_{Templates::Options{}};
  Templates::Scope scope_ = Templates::ScopeOf("me", "m");
};

TEST_F(TemplatesTest, ALineIsASlotWhenItsValuesChange) {
  EXPECT_EQ(Find("it is now 10:31"), nullptr);
  See("it is now 10:31", "it is now 10:32");
  const auto slot = Find("it is now 11:00");
  ASSERT_NE(slot, nullptr);
  EXPECT_TRUE(slot->moves);
  EXPECT_EQ(Find("never ask for more"), nullptr);
}

TEST_F(TemplatesTest, ALineIsASlotWhenItsWordsChangeForTheThirdTime) {
  const std::vector<std::string> branches = {"main", "fix", "docs", "test"};
  const auto line = [&](size_t i) { return "You work on branch " + branches[i] + " today"; };
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Find(line(i)), nullptr) << i;
    const LineForm before = FormIn(Text(line(i)), 1);
    const uint64_t after =
        templates_.SlotAfter(scope_, before, FormIn(Text(line(i + 1)), 1), LineChange::kWords);
    EXPECT_EQ(after != 0, i == 2);
    See(line(i), line(i + 1));
  }
  EXPECT_NE(Find("You work on branch another today"), nullptr);
}

TEST_F(TemplatesTest, TwoLinesInNearlyTheSameWordsAreTwoSlots) {
  const auto text = [](std::string_view step, std::string_view branch) {
    return "Be kind.\nRemember that " + std::string(step) +
           " is the present step, whatever was said before.\nRead the files first.\n" +
           "Remember that " + std::string(branch) +
           " is the present branch, whatever was said before.\nNever push anything.";
  };
  const auto see = [&](size_t line, const std::string& a, const std::string& b) {
    templates_.Learn(scope_, {.changes = {{.before = FormIn(a, line),
                                           .now = FormIn(b, line),
                                           .change = LineChange::kValues,
                                           .pattern = "p",
                                           .line_tokens = 12,
                                           .stake_tokens = 5000}},
                              .beginnings = {}});
  };
  see(1, text("10:31", "a/b-1"), text("10:32", "a/b-1"));
  see(3, text("10:32", "a/b-1"), text("10:32", "a/b-2"));
  const auto known = templates_.Known(scope_);
  ASSERT_EQ(known->slots().size(), 2U);
  const std::string now = text("11:00", "a/b-9");
  const TextLines lines(now, nullptr);
  const auto step = known->Find(Place::kSystem, lines, 1, now);
  const auto branch = known->Find(Place::kSystem, lines, 3, now);
  ASSERT_TRUE(step && branch);
  EXPECT_NE(step->id, branch->id);
}

TEST_F(TemplatesTest, AUsersLineIsASlotWhenItsValuesChangeForTheSecondTime) {
  const auto form = [](std::string_view time) {
    const std::string text = "Rules.\nThe build was seen at " + std::string(time) + ".\nFix it.";
    return FormOf(Place::kFirstUser, TextLines(text, nullptr), 1, text);
  };
  const auto after = [&](std::string_view before, std::string_view now) {
    return templates_.SlotAfter(scope_, form(before), form(now), LineChange::kValues);
  };
  EXPECT_EQ(after("10:31", "10:32"), 0U);
  templates_.Learn(scope_, {.changes = {{.before = form("10:31"),
                                         .now = form("10:32"),
                                         .change = LineChange::kValues,
                                         .pattern = "p",
                                         .line_tokens = 9,
                                         .stake_tokens = 500}},
                            .beginnings = {}});
  EXPECT_TRUE(templates_.Known(scope_)->slots().empty());
  EXPECT_NE(after("10:32", "10:33"), 0U);
}

TEST_F(TemplatesTest, NothingIsSharedBetweenTenantsAndModels) {
  See("it is now 10:31", "it is now 10:32");
  for (const auto& other : {Templates::ScopeOf("you", "m"), Templates::ScopeOf("me", "n")}) {
    EXPECT_TRUE(templates_.Known(other)->slots().empty());
  }
}

TEST_F(TemplatesTest, ASlotThatConversationsBeginAlikeWithStays) {
  See("it is now 10:31", "it is now 10:32");
  const uint64_t id = Find("it is now 11:00")->id;
  const auto begin = [&](uint64_t line) {
    templates_.Learn(scope_, {.changes = {}, .beginnings = {{.slot = id, .line = line}}});
  };
  for (int i = 0; i < 100; ++i) begin(1);
  EXPECT_TRUE(Find("it is now 11:00")->moves) << "1000 tokens, lost once in a hundred";
  for (int i = 0; i < 400; ++i) begin(1);
  EXPECT_FALSE(Find("it is now 11:00")->moves) << "10 tokens, five hundred times";
  for (uint64_t i = 0; i < 100; ++i) begin(i);
  EXPECT_TRUE(Find("it is now 11:00")->moves);
}

TEST_F(TemplatesTest, AConversationKeepsTheSetItBeganWith) {
  const auto before = templates_.Known(scope_);
  See("it is now 10:31", "it is now 10:32");
  EXPECT_TRUE(before->slots().empty());
  const auto now = templates_.Known(scope_);
  See("it is now 10:32", "it is now 10:33");
  EXPECT_EQ(templates_.Known(scope_), now) << "one set for all conversations until it changes";
}

TEST_F(TemplatesTest, ATenantsTemplatesAreListed) {
  See("it is now 10:31 here", "it is now 10:32 here");
  See("You work on branch main today", "You work on branch fix today");
  const std::vector<Templates::Learnt> all = templates_.List("me");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].scope.model, "m");
  ASSERT_EQ(all[0].templates.size(), 2U);
  EXPECT_EQ(LineOf(all[0].templates[0]), "You work on branch <*> today");
  EXPECT_FALSE(all[0].templates[0].is_slot);
  EXPECT_EQ(LineOf(all[0].templates[1]), "it is now <*> here");
  EXPECT_TRUE(all[0].templates[1].is_slot);
  EXPECT_TRUE(templates_.List("you").empty());
}

TEST_F(TemplatesTest, AnotherProcessGoesOnWithThem) {
  See("it is now 10:31", "it is now 10:32");
  See("You work on branch main today", "You work on branch fix today");
  See("You work on branch fix today", "You work on branch docs today");
  const Templates::Changes taken = templates_.TakeChanged();
  ASSERT_EQ(taken.learnt.size(), 1U);
  Templates later{Templates::Options{}};
  later.Restore(taken.learnt[0]);
  EXPECT_EQ(later.num_bytes(), templates_.num_bytes());
  const auto listed = later.List("me");
  ASSERT_EQ(listed.size(), 1U);
  ASSERT_EQ(listed[0].templates.size(), 2U);
  EXPECT_EQ(LineOf(listed[0].templates[0]), "You work on branch <*> today");
  EXPECT_EQ(listed[0].templates[0].word_changes, 2U);
  EXPECT_NE(later.Known(scope_)->Find(FormIn(Text("it is now 11:00"), 1)), nullptr);
  const LineForm before = FormIn(Text("You work on branch docs today"), 1);
  EXPECT_NE(later.SlotAfter(scope_, before, FormIn(Text("You work on branch x today"), 1),
                            LineChange::kWords),
            0U)
      << "the third time";
  EXPECT_TRUE(later.TakeChanged().learnt.empty()) << "what is restored has not changed";
  later.Restore({.scope = scope_, .templates = {}});
  EXPECT_EQ(later.List("me")[0].templates.size(), 2U) << "what is known already stays";
}

TEST_F(TemplatesTest, OnlyWhatHasChangedSinceIsTaken) {
  const Templates::Scope other = Templates::ScopeOf("me", "n");
  See("it is now 10:31", "it is now 10:32");
  templates_.Learn(other,
                   {.changes = {Change("build 7 is on", "build 8 is on")}, .beginnings = {}});
  EXPECT_EQ(templates_.TakeChanged().learnt.size(), 2U);
  EXPECT_TRUE(templates_.TakeChanged().learnt.empty());
  const uint64_t id = Find("it is now 11:00")->id;
  templates_.Learn(other, {.changes = {}, .beginnings = {{.slot = id, .line = 1}}});
  EXPECT_TRUE(templates_.TakeChanged().learnt.empty()) << "it has no such slot";
  templates_.Learn(scope_, {.changes = {}, .beginnings = {{.slot = id, .line = 1}}});
  const Templates::Changes taken = templates_.TakeChanged();
  ASSERT_EQ(taken.learnt.size(), 1U);
  EXPECT_EQ(Templates::KeyOf(taken.learnt[0].scope), Templates::KeyOf(scope_));
  EXPECT_EQ(taken.learnt[0].templates[0].begun, 1U);
}

TEST_F(TemplatesTest, WhatWasRestoredLeavesBeforeWhatIsUsed) {
  See("it is now 10:31", "it is now 10:32");
  std::vector<Templates::Learnt> learnt = templates_.TakeChanged().learnt;
  Templates later({.bytes_max = templates_.num_bytes() * 5 / 2, .slots_max = 8});
  learnt.resize(3, learnt[0]);
  const auto restore = [&](size_t i, const std::string& model) {
    learnt[i].scope.model = model;
    later.Restore(learnt[i]);
  };
  later.Learn(scope_,
              {.changes = {Change("it is now 10:31", "it is now 10:32")}, .beginnings = {}});
  restore(1, "newer");
  restore(2, "older");
  const auto listed = later.List("me");
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].scope.model, "m");
  EXPECT_EQ(listed[1].scope.model, "newer");
  const Templates::Changes taken = later.TakeChanged();
  ASSERT_EQ(taken.left.size(), 1U);
  EXPECT_EQ(taken.left[0], Templates::KeyOf(learnt[2].scope));
}

TEST(Templates, WhatLeavesIsNamedOnceIfItWasTaken) {
  Templates templates({.bytes_max = 20'000, .slots_max = 8});
  const auto see = [&](const std::string& model) {
    templates.Learn(Templates::ScopeOf("me", model),
                    {.changes = {Change("it is 1", "it is 2")}, .beginnings = {}});
  };
  const auto flood = [&] {
    for (int i = 0; i < 100; ++i) see(std::to_string(i));
  };
  const parse::Identity first = Templates::KeyOf(Templates::ScopeOf("me", "first"));
  see("first");
  EXPECT_EQ(templates.TakeChanged().learnt.size(), 1U);
  flood();
  Templates::Changes taken = templates.TakeChanged();
  ASSERT_EQ(taken.left.size(), 1U) << "nobody has taken those of the flood that left";
  EXPECT_EQ(taken.left[0], first);
  EXPECT_LT(taken.learnt.size(), 100U);
  EXPECT_TRUE(templates.TakeChanged().left.empty());
  see("first");
  templates.TakeChanged();
  flood();
  see("first");
  taken = templates.TakeChanged();
  EXPECT_EQ(std::count(taken.left.begin(), taken.left.end(), first), 0) << "it is here again";
}

TEST(Templates, OneTenantDoesNotPushOutTheOthers) {
  Templates templates({.bytes_max = 100'000, .slots_max = 32});
  const auto see = [&](const Templates::Scope& scope, int i) {
    const std::string name = std::string(1, static_cast<char>('a' + i % 26)) +
                             std::string(static_cast<size_t>(i / 26 + 1), 'x');
    const std::string line = name + "a " + name + "b " + name + "c ";
    templates.Learn(scope, {.changes = {Change(line + "1", line + "2", name)}, .beginnings = {}});
    EXPECT_LE(templates.num_bytes(), 100'000U);
  };
  const Templates::Scope quiet = Templates::ScopeOf("quiet", "m");
  see(quiet, 0);
  for (int model = 0; model < 40; ++model) {
    const Templates::Scope scope = Templates::ScopeOf("loud", std::to_string(model));
    for (int i = 0; i < 60; ++i) see(scope, i);
    EXPECT_EQ(templates.Known(scope)->slots().size(), 32U);
  }
  EXPECT_EQ(templates.Known(quiet)->slots().size(), 1U);
  for (int i = 0; i < 1000; ++i) see(Templates::ScopeOf("tenant" + std::to_string(i), "m"), 0);
  EXPECT_TRUE(templates.Known(quiet)->slots().empty()) << "the longest silent one leaves";
}

TEST(Templates, ThreadsMayShareThem) {
  Templates templates({.bytes_max = 20'000, .slots_max = 8});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&templates, t] {
      for (int i = 0; i < 300; ++i) {
        const auto scope = Templates::ScopeOf(std::to_string((t + i) % 5), "m");
        const std::string line = "run of worker " + std::string(1, static_cast<char>('a' + i % 26));
        templates.Learn(scope, {.changes = {Change(line + " 1", line + " 2")}, .beginnings = {}});
        const std::shared_ptr<const SlotSet> known = templates.Known(scope);
        for (const auto& slot : known->slots()) {
          templates.Learn(scope, {.changes = {}, .beginnings = {{slot->id, 1}}});
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(templates.num_bytes(), 20'000U);
}

TEST_F(TemplatesTest, WhatAnotherGatewayHasSeenMoreOfHolds) {
  Templates theirs{Templates::Options{}};
  const auto see = [&](const std::string& before, const std::string& now) {
    theirs.Learn(scope_, {.changes = {Change(before, now)}, .beginnings = {}});
  };
  See("it is now 10:31", "it is now 10:32");
  (void)templates_.TakeChanged();
  see("it is now 10:31", "it is now 10:32");
  see("it is now 10:32", "it is now 10:33");
  const std::string queue = "the queue of reviews for your team holds ";
  see(queue + "17 open requests", queue + "18 open requests");
  templates_.Merge(theirs.List("me")[0]);
  EXPECT_NE(Find(queue + "19 open requests"), nullptr);
  const std::vector<Templates::Learnt> learnt = templates_.List("me");
  ASSERT_EQ(learnt.size(), 1u);
  ASSERT_EQ(learnt[0].templates.size(), 2u);
  EXPECT_EQ(LineOf(learnt[0].templates[0]), "it is now <*>");
  EXPECT_EQ(learnt[0].templates[0].value_changes, 2u);
  // What was heard is not told again, and who has seen less changes nothing.
  EXPECT_TRUE(templates_.TakeChanged().learnt.empty());
  const size_t bytes = templates_.num_bytes();
  Templates novice{Templates::Options{}};
  novice.Learn(scope_,
               {.changes = {Change("it is now 10:31", "it is now 10:32")}, .beginnings = {}});
  templates_.Merge(novice.List("me")[0]);
  EXPECT_EQ(templates_.List("me")[0].templates[0].value_changes, 2u);
  EXPECT_EQ(templates_.num_bytes(), bytes);
}

TEST_F(TemplatesTest, WhatIsHeardKeepsToTheBounds) {
  Templates few{{.slots_max = 1}};
  few.Merge({.scope = scope_, .templates = {}});
  Templates theirs{Templates::Options{}};
  theirs.Learn(
      scope_, {.changes = {Change("it is now 10:31 here", "it is now 10:32 here"),
                           Change("You work on branch main today", "You work on branch fix today")},
               .beginnings = {}});
  ASSERT_EQ(theirs.List("me")[0].templates.size(), 2u);
  few.Merge(theirs.List("me")[0]);
  EXPECT_EQ(few.List("me")[0].templates.size(), 1u);
  Templates small{{.bytes_max = 100}};
  small.Merge(theirs.List("me")[0]);
  EXPECT_LE(small.num_bytes(), 100u);
}

}  // namespace
}  // namespace kvgate::prompt::templates
