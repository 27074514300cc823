#include "gateway/prompt/diagnose/slot_savings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/gateway/prompt/conversations.h"
#include "tests/gateway/prompt/sent_request.h"
#include "tests/manual_clock.h"

namespace kvgate::prompt::diagnose {
namespace {

using namespace std::chrono_literals;
using ::kvgate::test::ManualClock;
using templates::Place;

// A branch whose system text has the lines "one 1", "two 2" and so on.
std::shared_ptr<const history::Branch> ABranch() {
  const test::Request request{.system = "The time is 10:31 now.\nThis is call 7 of it.",
                              .turns = {test::Turn("user", "hi")}};
  auto branch = std::make_shared<history::Branch>();
  branch->request = SentAs(request.endpoint, request.Body());
  return branch;
}
SlotLoss Loss(uint64_t mask, int64_t tokens, Place place = Place::kSystem) {
  return {.place = place,
          .mask = mask,
          .segment = 0,
          .line = static_cast<uint32_t>(mask - 1),
          .tokens = tokens,
          .nanodollars = 1000 * tokens};
}

class SlotSavingsTest : public ::testing::Test {
 protected:
  SlotSavingsTest() {
    options_.log = [this](const std::string& line) { logged_.push_back(line); };
  }
  void Add(SlotSavings& savings, const std::vector<SlotLoss>& losses,
           std::string_view tenant = "me") {
    savings.Add({.tenant = tenant, .model = "m", .losses = losses, .branch = branch_});
  }
  ManualClock clock_;
  SlotSavings::Options options_;
  std::vector<std::string> logged_;
  std::shared_ptr<const history::Branch> branch_ = ABranch();
};

TEST_F(SlotSavingsTest, SumsAreBySlotAndTheDearestComesFirst) {
  SlotSavings savings(options_);
  Add(savings, {Loss(1, 100)});
  Add(savings, {Loss(1, 50), Loss(2, 400)});
  const SlotSavings::Savings all = savings.List();
  EXPECT_EQ(all.sum.requests, 2);
  EXPECT_EQ(all.sum.tokens, 550);
  EXPECT_EQ(all.sum.nanodollars, 550'000);
  ASSERT_EQ(all.slots.size(), 2U);
  EXPECT_EQ(all.slots[0].sum.tokens, 400);
  EXPECT_EQ(all.slots[0].line, "This is call <*> of it.");
  EXPECT_EQ(all.slots[0].path, "system");
  EXPECT_EQ(all.slots[1].sum.requests, 2);
  EXPECT_EQ(all.slots[1].line, "The time is <*> now.");
}

TEST_F(SlotSavingsTest, ATenantSeesItsOwn) {
  SlotSavings savings(options_);
  Add(savings, {Loss(1, 100)});
  Add(savings, {Loss(1, 70)}, "other");
  EXPECT_EQ(savings.List().slots.size(), 2U);
  const SlotSavings::Savings mine = savings.List("me");
  ASSERT_EQ(mine.slots.size(), 1U);
  EXPECT_EQ(mine.slots[0].tenant, "me");
  EXPECT_EQ(mine.sum.tokens, 100);
  EXPECT_TRUE(savings.List("nobody").slots.empty());
}

// No text is kept: what is shown is read from the conversation's memory.
TEST_F(SlotSavingsTest, ALineIsUnknownOnceItsConversationHasGone) {
  SlotSavings savings(options_);
  Add(savings, {Loss(1, 100)});
  branch_ = nullptr;
  const SlotSavings::Savings all = savings.List();
  ASSERT_EQ(all.slots.size(), 1U);
  EXPECT_EQ(all.slots[0].line, "");
  EXPECT_EQ(all.slots[0].sum.tokens, 100);
}

TEST_F(SlotSavingsTest, AUsersLineCountsFromItsSecondChangeOn) {
  SlotSavings savings(options_);
  Add(savings, {Loss(1, 100, Place::kFirstUser), Loss(2, 100)});
  EXPECT_EQ(savings.List().sum.tokens, 0);
  EXPECT_TRUE(savings.List().slots.empty());
  Add(savings, {Loss(1, 100, Place::kFirstUser), Loss(2, 100)});
  EXPECT_EQ(savings.List().sum.tokens, 200);
}

TEST_F(SlotSavingsTest, OneLineAnHourIsLogged) {
  {
    SlotSavings savings(options_);
    Add(savings, {Loss(1, 100), Loss(2, 400)});
    ManualClock::Advance(59min);
    Add(savings, {Loss(1, 100)});
    EXPECT_TRUE(logged_.empty());
    ManualClock::Advance(1min);
    Add(savings, {Loss(1, 100)});
    ASSERT_EQ(logged_.size(), 1U);
    EXPECT_EQ(logged_[0],
              "in the last 60 min mode stabilize would have saved 700 tokens ($0.0007) in 3 "
              "requests: 400 tokens by system 'This is call <*> of it.', 300 tokens by system 'The "
              "time is <*> now.'");
    ManualClock::Advance(59min);
    Add(savings, {Loss(1, 10)});
    EXPECT_EQ(logged_.size(), 1U) << "an hour has not passed since";
  }
  ASSERT_EQ(logged_.size(), 2U) << "what has not been said yet is said at the end";
  EXPECT_NE(logged_[1].find("would have saved 10 tokens"), std::string::npos);
}

TEST_F(SlotSavingsTest, NothingIsLoggedWhereNothingWouldHaveBeenSaved) {
  {
    SlotSavings savings(options_);
    ManualClock::Advance(3h);
    Add(savings, {});
    Add(savings, {Loss(1, 100, Place::kFirstUser)});
  }
  EXPECT_TRUE(logged_.empty());
}

TEST_F(SlotSavingsTest, OfManySlotsTheNewestAreKeptAndTheSumsOfAll) {
  options_.slots_max = 2;
  SlotSavings savings(options_);
  for (uint64_t mask : {1U, 2U, 1U, 3U}) Add(savings, {Loss(mask, 100)});
  const SlotSavings::Savings all = savings.List();
  EXPECT_EQ(all.sum.tokens, 400);
  ASSERT_EQ(all.slots.size(), 2U);
  EXPECT_EQ(all.slots[0].sum.tokens, 200) << "slot 2 was silent for longest";
}

}  // namespace
}  // namespace kvgate::prompt::diagnose
