#include "store/shared/shared_sums.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/store/shared/memory_client.h"

namespace kvgate::store::shared {
namespace {

using Values = std::vector<double>;

class SharedSumsTest : public testing::Test {
 protected:
  SharedSums::Own Own(const std::string& field, Values values, std::string_view tenant = "alice") {
    return {.kind = "day 1",
            .tenant = tenant,
            .field = field,
            .values = std::move(values),
            .time_to_live = std::chrono::seconds(100)};
  }
  // Says it, and returns the sums of the first and second values of the others.
  Values Exchange(const SharedSums::Own& own, uint64_t num_damaged = 0) {
    const auto all = sums_.Exchange({&own, 1}, SteadyClock::now());
    EXPECT_TRUE(all) << all.error().ToString();
    if (!all) return {};
    EXPECT_EQ(all->at(0).num_damaged, num_damaged);
    Values sums{0, 0};
    for (const SharedSums::Other& other : all->at(0).others) {
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += other.values.at(i);
    }
    return sums;
  }

  MemoryServer server_;
  MemoryClient client_{server_};
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  SharedSums sums_{client_, *ring_};
  const std::string a_ = sums_.FieldOf("a");
  const std::string b_ = sums_.FieldOf("b");
  const std::string c_ = sums_.FieldOf("c");
};

TEST_F(SharedSumsTest, EachReadsWhatTheOthersHaveCounted) {
  EXPECT_EQ(Exchange(Own(a_, {1, 10})), (Values{0, 0}));
  EXPECT_EQ(Exchange(Own(b_, {2, 20})), (Values{1, 10}));
  EXPECT_EQ(Exchange(Own(c_, {4, 40})), (Values{3, 30}));
  EXPECT_EQ(Exchange(Own(a_, {1.5, 10})), (Values{6, 60}));
  EXPECT_EQ(Exchange(Own(b_, {2, 20})), (Values{5.5, 50}));
}

TEST_F(SharedSumsTest, WhatIsSaidTwiceCountsOnce) {
  client_.repeats = true;
  EXPECT_EQ(Exchange(Own(a_, {1, 10})), (Values{0, 0}));
  EXPECT_EQ(Exchange(Own(a_, {1, 10})), (Values{0, 0}));
  EXPECT_EQ(Exchange(Own(b_, {2, 20})), (Values{1, 10}));
}

TEST_F(SharedSumsTest, NamesOfOneCallStandApart) {
  EXPECT_EQ(Exchange(Own(a_, {1, 10})), (Values{0, 0}));
  EXPECT_EQ(Exchange(Own(a_, {7, 70}, "bob")), (Values{0, 0}));
  SharedSums::Own next = Own(b_, {0, 0});
  next.kind = "day 2";
  const std::vector<SharedSums::Own> own{Own(b_, {0, 0}), Own(b_, {0, 0}, "bob"), next};
  const size_t num_calls = client_.said.size();
  const auto all = sums_.Exchange(own, SteadyClock::now());
  ASSERT_TRUE(all);
  EXPECT_EQ(client_.said.size(), num_calls + 9);
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ(all->at(0).others.at(0).values, (Values{1, 10}));
  EXPECT_EQ(all->at(1).others.at(0).values, (Values{7, 70}));
  EXPECT_TRUE(all->at(2).others.empty());
  for (const auto& [key, time] : server_.times_to_live) EXPECT_EQ(time, "100");
  EXPECT_EQ(server_.times_to_live.size(), 3u);
}

TEST_F(SharedSumsTest, NothingStandsThereInClearAndWhatIsDamagedOrMovedIsLeftOut) {
  EXPECT_EQ(Exchange(Own(a_, {1, 10})), (Values{0, 0}));
  EXPECT_EQ(Exchange(Own(b_, {2, 20})), (Values{1, 10}));
  auto& [key, hash] = *server_.hashes.begin();
  EXPECT_EQ(key.find("alice"), std::string::npos);
  // One gateway's value in the place of another's, and one that is damaged.
  const std::string right = hash[a_];
  hash[a_] = hash[b_];
  EXPECT_EQ(Exchange(Own(c_, {0, 0}), 1), (Values{2, 20}));
  hash[a_] = right;
  hash[a_][20] ^= 1;
  EXPECT_EQ(Exchange(Own(c_, {0, 0}), 1), (Values{2, 20}));
  hash[a_] = "forged";
  EXPECT_EQ(Exchange(Own(c_, {0, 0}), 1), (Values{2, 20}));
  hash[a_] = right;
  EXPECT_EQ(Exchange(Own(c_, {0, 0})), (Values{3, 30}));
  // Another secret names it in another way.
  const auto their_ring = Keyring::Generate();
  const SharedSums theirs(client_, *their_ring);
  const std::string field = theirs.FieldOf("a");
  const SharedSums::Own own = Own(field, {0, 0});
  EXPECT_TRUE(theirs.Exchange({&own, 1}, SteadyClock::now())->at(0).others.empty());
}

TEST_F(SharedSumsTest, ListsOfAnotherLengthAndNumbersThatAreNoneAreLeftOut) {
  EXPECT_EQ(Exchange(Own(a_, {1, 10, 100})), (Values{0, 0}));
  EXPECT_EQ(Exchange(Own(b_, {-1, 10}), 1), (Values{0, 0}));
  EXPECT_EQ(Exchange(Own(c_, {2, 20}), 2), (Values{0, 0}));
}

TEST_F(SharedSumsTest, WhoSaysNothingReadsAndIsToldIfItsFieldIsThere) {
  SharedSums::Own silent = Own(a_, {0, 0});
  silent.is_said = false;
  EXPECT_EQ(Exchange(silent), (Values{0, 0}));
  EXPECT_FALSE(server_.hashes.begin()->second.contains(a_));
  EXPECT_EQ(Exchange(Own(b_, {2, 20})), (Values{0, 0}));
  EXPECT_EQ(Exchange(silent), (Values{2, 20}));
  EXPECT_FALSE(sums_.Exchange({&silent, 1}, SteadyClock::now())->at(0).has_own);
  EXPECT_EQ(Exchange(Own(a_, {1, 10})), (Values{2, 20}));
  EXPECT_TRUE(sums_.Exchange({&silent, 1}, SteadyClock::now())->at(0).has_own);
  silent.removed = {b_};
  EXPECT_EQ(Exchange(silent), (Values{0, 0}));
}

TEST_F(SharedSumsTest, OneProcessHasAClaim) {
  MemoryClient other_client{server_};
  const SharedSums other(other_client, *ring_);
  const auto claim = [](const SharedSums& sums, std::string_view what, std::string_view by) {
    return sums.Claim({.what = what, .by = by, .time_to_live = std::chrono::seconds(100)},
                      SteadyClock::now());
  };
  client_.repeats = true;
  EXPECT_TRUE(*claim(sums_, "alice at 50 %", "a"));
  EXPECT_FALSE(*claim(other, "alice at 50 %", "b"));
  EXPECT_TRUE(*claim(sums_, "alice at 50 %", "a"));
  EXPECT_TRUE(*claim(other, "alice at 80 %", "b"));
  for (const auto& [key, value] : server_.values) EXPECT_EQ(key.find("alice"), std::string::npos);
  client_.is_full = true;
  EXPECT_FALSE(claim(sums_, "bob at 50 %", "a"));
}

TEST_F(SharedSumsTest, AServerThatIsDownOrFullIsAnError) {
  const SharedSums::Own own = Own(a_, {1, 10});
  client_.is_full = true;
  EXPECT_EQ(sums_.Exchange({&own, 1}, SteadyClock::now()).error().code, ErrorCode::kUnavailable);
  client_.is_full = false;
  client_.is_down = true;
  EXPECT_FALSE(sums_.Exchange({&own, 1}, SteadyClock::now()));
  EXPECT_TRUE(sums_.is_paused());
}

}  // namespace
}  // namespace kvgate::store::shared
