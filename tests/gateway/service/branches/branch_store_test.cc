#include "gateway/service/branches/branch_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/prompt/optimizer.h"
#include "gateway/prompt/parse/canonical.h"
#include "store/file/sealed_kinds.h"
#include "tests/store/memory_meta_store.h"
#include "tests/wait_until.h"

namespace kvgate::service::branches {
namespace {

using prompt::history::Branch;
using prompt::history::CallerForm;
using prompt::history::Past;
using prompt::history::SentSegment;
using prompt::parse::Identity;
using store::MemoryMetaStore;
using store::meta::MetaTable;

constexpr Identity kOne{.low = 1, .high = 1};
constexpr Identity kTwo{.low = 2, .high = 2};
constexpr int64_t kHourUs = 3'600'000'000;

class BranchStoreTest : public testing::Test {
 protected:
  std::unique_ptr<BranchStore> Open(bool enabled = true) {
    return std::make_unique<BranchStore>(
        BranchStore::Options{.meta = meta_,
                             .enabled = enabled,
                             .retention = std::chrono::hours(1),
                             .bytes_max = bytes_max_,
                             .interval = std::chrono::milliseconds(5),
                             .now_us = [this] { return now_us_.load(); }});
  }
  // The request after `before`, with one turn more, which went out in other bytes than it came.
  std::shared_ptr<Branch> Next(const std::shared_ptr<const Branch>& before, std::string text) {
    auto branch = before ? std::make_shared<Branch>(*before) : std::make_shared<Branch>();
    branch->token = ++token_;
    branch->mode = prompt::Mode::kPin;
    SentSegment sent;
    sent.place = {.section = prompt::parse::Section::kMessages, .field = "messages"};
    sent.sent_raw = prompt::parse::HashBytes(text, prompt::parse::Domain::kRaw);
    sent.bytes = std::make_shared<const std::string>(std::move(text));
    branch->request.segments.push_back(std::move(sent));
    branch->forms.push_back(CallerForm());
    return branch;
  }
  static BranchStore::Write Stage(BranchStore& store, const std::shared_ptr<const Branch>& branch,
                                  const std::shared_ptr<const Branch>& before = nullptr,
                                  Identity conversation = kOne) {
    auto write =
        store.Stage({.tenant = "t", .branch = branch, .before = before, .keys = {conversation}});
    EXPECT_TRUE(write) << "it adds something";
    return write.value();
  }
  static void Keep(BranchStore& store, const std::shared_ptr<const Branch>& branch,
                   const std::shared_ptr<const Branch>& before = nullptr,
                   Identity conversation = kOne) {
    const BranchStore::Write write = Stage(store, branch, before, conversation);
    store.Commit(write);
    store.GoOut(write);
  }
  static Past::Standing StandingOf(const BranchStore& store, Identity conversation = kOne,
                                   std::vector<std::shared_ptr<const Branch>> known = {}) {
    return store.Find({.keys = {&conversation, 1}, .known = known});
  }
  static std::vector<std::string> TextsOf(BranchStore& store, Identity conversation = kOne) {
    std::vector<std::string> texts;
    const auto recalled = store.Recall({&conversation, 1});
    if (recalled.empty()) return texts;
    for (const SentSegment& segment : recalled[0].branches[0]->request.segments) {
      texts.push_back(segment.bytes ? *segment.bytes : "?");
    }
    return texts;
  }
  std::vector<std::string> Keys(std::string_view prefix) const {
    std::vector<std::string> keys;
    EXPECT_TRUE(
        meta_.Scan(MetaTable::kPrefixes, prefix, [&](std::string_view key, std::string_view) {
          keys.emplace_back(key);
          return true;
        }));
    return keys;
  }
  void Damage(const std::string& key) {
    std::string value = **meta_.Get(MetaTable::kPrefixes, key);
    value.back() ^= 1;
    ASSERT_TRUE(meta_.Put(MetaTable::kPrefixes, key, value));
  }

  MemoryMetaStore meta_;
  std::atomic<int64_t> now_us_{1'000'000'000'000};
  uint64_t bytes_max_ = 1 << 20;
  uint64_t token_ = 0;
};

TEST_F(BranchStoreTest, AnotherProcessKnowsWhatTheFirstOneSent) {
  std::shared_ptr<Branch> first;
  std::shared_ptr<Branch> second;
  {
    const auto store = Open();
    EXPECT_EQ(StandingOf(*store), Past::Standing::kUnknown);
    first = Next(nullptr, "one");
    Keep(*store, first);
    second = Next(first, "two");
    Keep(*store, second, first);
    EXPECT_EQ(StandingOf(*store, kOne, {second}), Past::Standing::kUnknown) << "it is in memory";
  }
  EXPECT_EQ(Keys("B").size(), 2U) << "a row for each request";
  EXPECT_EQ(Keys("C").size(), 2U);
  const auto store = Open();
  EXPECT_EQ(StandingOf(*store), Past::Standing::kKept);
  EXPECT_EQ(StandingOf(*store, kTwo), Past::Standing::kUnknown);
  EXPECT_EQ(TextsOf(*store), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(store->stats().num_recalled, 1U);
  EXPECT_EQ(store->stats().num_lost, 0U);
  // It goes on from there.
  Keep(*store, Next(second, "three"), second);
  EXPECT_EQ(Keys("B").size(), 3U);
  EXPECT_EQ(TextsOf(*store), (std::vector<std::string>{"one", "two", "three"}));
}

TEST_F(BranchStoreTest, WhoPeeksReadsTheSameAndChangesNothing) {
  const auto first = Next(nullptr, "one");
  {
    const auto store = Open();
    Keep(*store, first);
    Keep(*store, Next(first, "two"), first);
    Keep(*store, Next(nullptr, "other"), nullptr, kTwo);
  }
  const auto store = Open();
  const auto peeked = store->Peek({&kOne, 1});
  ASSERT_EQ(peeked.size(), 2U) << "the last request, and the one that it went on from";
  EXPECT_EQ(peeked[0]->conversation, kOne);
  ASSERT_EQ(peeked[0]->request.segments.size(), 2U);
  EXPECT_EQ(*peeked[0]->request.segments[1].bytes, "two");
  EXPECT_EQ(store->stats().num_recalled, 0U);
  // What cannot be read is left alone, too.
  for (const std::string& key : Keys("B")) Damage(key);
  EXPECT_TRUE(store->Peek({&kTwo, 1}).empty());
  EXPECT_EQ(store->stats().num_lost, 0U);
  EXPECT_EQ(StandingOf(*store, kTwo), Past::Standing::kKept);
  EXPECT_TRUE(TextsOf(*store, kTwo).empty());
  EXPECT_EQ(StandingOf(*store, kTwo), Past::Standing::kLost) << "but not by who goes on";
}

TEST_F(BranchStoreTest, ManyRowsBecomeOne) {
  const auto store = Open();
  std::shared_ptr<Branch> last;
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) {
    texts.push_back("text " + std::to_string(i));
    auto next = Next(last, texts.back());
    Keep(*store, next, last);
    last = next;
  }
  EXPECT_LE(Keys("B").size(), 65U);
  EXPECT_EQ(TextsOf(*store), texts);
}

TEST_F(BranchStoreTest, ARequestThatIsSentAgainIsNotWrittenAgain) {
  const auto store = Open();
  const auto first = Next(nullptr, "one");
  Keep(*store, first);
  auto again = std::make_shared<Branch>(*first);
  again->token = ++token_;
  EXPECT_FALSE(store->Stage({.tenant = "t", .branch = again, .before = first, .keys = {kOne}}));
  EXPECT_EQ(Keys("B").size(), 1U);
  Keep(*store, Next(again, "two"), again);
  EXPECT_EQ(Keys("B").size(), 2U);
  EXPECT_EQ(TextsOf(*store), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(TextsOf(*Open()), (std::vector<std::string>{"one", "two"}));
}

TEST_F(BranchStoreTest, TwoRequestsThatContinueOneAreTwoBranches) {
  const auto store = Open();
  const auto first = Next(nullptr, "one");
  Keep(*store, first);
  const auto left = Next(first, "left");
  const auto right = Next(first, "right");
  Keep(*store, left, first);
  Keep(*store, right, first);
  const auto recalled = store->Recall(std::vector{kOne});
  ASSERT_EQ(recalled.size(), 1U);
  std::vector<uint64_t> tokens;
  for (const auto& branch : recalled[0].branches) tokens.push_back(branch->token);
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(tokens, (std::vector{first->token, left->token, right->token}));
  EXPECT_EQ(StandingOf(*store, kOne, {left}), Past::Standing::kKept) << "the other is not known";
}

TEST_F(BranchStoreTest, ConversationsAreFoundUnderWhatTheyHaveInCommon) {
  const Identity opening{.low = 70, .high = 71};
  const Identity answer{.low = 72, .high = 73};
  const auto keep = [&](BranchStore& store, const std::shared_ptr<Branch>& branch,
                        const std::shared_ptr<const Branch>& before, std::vector<Identity> keys) {
    const auto write =
        store.Stage({.tenant = "t", .branch = branch, .before = before, .keys = std::move(keys)});
    ASSERT_TRUE(write);
    store.Commit(*write);
    store.GoOut(*write);
  };
  const auto one = Next(nullptr, "one");
  const auto two = Next(nullptr, "two");
  {
    const auto store = Open();
    keep(*store, one, nullptr, {kOne, opening});
    keep(*store, two, nullptr, {kTwo, opening});
    // What its first answer was is known by the second request.
    keep(*store, Next(one, "more"), one, {kOne, opening, answer});
  }
  const auto store = Open();
  const auto both = store->Recall(std::vector{opening});
  ASSERT_EQ(both.size(), 2U);
  for (const auto& conversation : both) {
    EXPECT_EQ(conversation.branches.size(), conversation.keys.front() == kOne ? 2U : 1U);
    EXPECT_EQ(conversation.branches[0]->conversation, conversation.keys.front());
  }
  EXPECT_NE(both[0].keys.front(), both[1].keys.front());
  const auto answered = store->Recall(std::vector{answer});
  ASSERT_EQ(answered.size(), 1U);
  EXPECT_EQ(answered[0].keys.front(), kOne);
}

TEST_F(BranchStoreTest, RequestsThatOthersWentOnFromAreKnownInAnotherProcess) {
  // A text of the first request is sent otherwise by the second one, as an edited turn is.
  auto first = Next(nullptr, "one");
  const auto second = Next(nullptr, "another one");
  std::shared_ptr<const Branch> third = Next(second, "three");
  {
    const auto store = Open();
    Keep(*store, first);
    Keep(*store, second, first);
    Keep(*store, third, second);
  }
  for (int process = 0; process < 2; ++process) {
    const auto store = Open();
    const auto recalled = store->Recall({&kOne, 1});
    ASSERT_EQ(recalled.size(), 1U);
    const auto& branches = recalled[0].branches;
    ASSERT_EQ(branches.size(), 3U);
    EXPECT_EQ(branches[0]->token, third->token);
    EXPECT_EQ(branches[0]->before, second->token);
    EXPECT_EQ(*branches[0]->request.segments[1].bytes, "three");
    EXPECT_EQ(*branches[1]->request.segments[0].bytes, "another one");
    EXPECT_EQ(branches[2]->token, first->token);
    EXPECT_EQ(branches[2]->before, 0U);
    EXPECT_EQ(*branches[2]->request.segments[0].bytes, "one");
  }
}

TEST_F(BranchStoreTest, OfALongBranchTheNewestRequestsAreKnown) {
  const auto store = Open();
  std::shared_ptr<Branch> last;
  for (int i = 0; i < 150; ++i) {
    auto next = Next(last, "text " + std::to_string(i));
    Keep(*store, next, last);
    last = std::move(next);
  }
  for (int process = 0; process < 2; ++process) {
    const auto recalled = Open()->Recall({&kOne, 1});
    ASSERT_EQ(recalled.size(), 1U);
    const auto& branches = recalled[0].branches;
    ASSERT_EQ(branches.size(), 17U);
    for (size_t i = 0; i < branches.size(); ++i) {
      ASSERT_EQ(branches[i]->request.segments.size(), 150 - i);
      for (size_t k = 0; k < 150 - i; ++k) {
        ASSERT_EQ(*branches[i]->request.segments[k].bytes, "text " + std::to_string(k));
      }
    }
  }
}

TEST_F(BranchStoreTest, AConversationIsFoundByItsAgentUntilItsFirstAnswerIsKnown) {
  const Identity agent{.low = 80, .high = 81};
  auto first = Next(nullptr, "one");
  prompt::history::FirstTurn turn;
  turn.kin = {agent};
  first->first_turn = std::make_shared<const prompt::history::FirstTurn>(turn);
  {
    const auto store = Open();
    Keep(*store, first);
    EXPECT_EQ(StandingOf(*store, agent), Past::Standing::kKept);
  }
  const auto store = Open();
  EXPECT_EQ(StandingOf(*store, agent), Past::Standing::kKept);
  const auto recalled = store->Recall({&agent, 1});
  ASSERT_EQ(recalled.size(), 1U);
  EXPECT_EQ(recalled[0].keys, (std::vector{kOne, agent}));
  ASSERT_TRUE(recalled[0].branches[0]->first_turn);
  EXPECT_EQ(*recalled[0].branches[0]->first_turn, turn);
  const auto second = Next(first, "two");
  second->first_turn = nullptr;
  Keep(*store, second, first);
  EXPECT_EQ(StandingOf(*store, agent), Past::Standing::kUnknown);
  EXPECT_EQ(StandingOf(*Open(), agent), Past::Standing::kUnknown);
  EXPECT_EQ(StandingOf(*store), Past::Standing::kKept);
}

// Version 2 had no part for the first turn; all else is the same.
TEST_F(BranchStoreTest, RowsOfTheVersionBeforeAreRead) {
  Keep(*Open(), Next(nullptr, "one"));
  for (const std::string& key : Keys("B")) {
    const std::string value = **meta_.Get(MetaTable::kPrefixes, key);
    const std::string tenant = key.substr(1, 16);
    const auto row = Unseal(store::file::kBranchKind, meta_.keyring(), key, value, tenant);
    ASSERT_TRUE(row);
    store::file::SealedKind old = store::file::kBranchKind;
    old.version = 2;
    const std::string sealed = Seal(old, meta_.keyring(), key, row->body, tenant);
    ASSERT_NE(sealed.substr(0, 8), value.substr(0, 8)) << "the version stands in the head";
    ASSERT_TRUE(meta_.Put(MetaTable::kPrefixes, key, sealed));
  }
  EXPECT_EQ(TextsOf(*Open()), std::vector<std::string>{"one"});
}

TEST_F(BranchStoreTest, AWithdrawnRequestIsNotContinued) {
  const auto store = Open();
  const auto first = Next(nullptr, "one");
  Keep(*store, first);
  const auto refused = Next(first, "refused");
  Keep(*store, refused, first);
  store->Withdraw(refused->token, first->token);
  Keep(*store, Next(first, "two"), first);
  EXPECT_EQ(TextsOf(*store), (std::vector<std::string>{"one", "two"}));
  const auto alone = Next(nullptr, "alone");
  Keep(*store, alone, nullptr, kTwo);
  store->Withdraw(alone->token, 0);
  EXPECT_EQ(StandingOf(*store, kTwo), Past::Standing::kUnknown);
}

TEST_F(BranchStoreTest, AWriteThatIsLateCountsAsLostUntilItIsThere) {
  const auto store = Open();
  const auto first = Next(nullptr, "one");
  meta_.holds = true;
  const BranchStore::Write write = Stage(*store, first);
  EXPECT_EQ(write.patience, std::chrono::milliseconds(20));
  std::thread disk([&] { store->Commit(write); });
  store->GoOut(write);
  EXPECT_EQ(store->stats().num_lost, 1U);
  EXPECT_FALSE(store->CanKeep());
  const auto second = Next(first, "two");
  const BranchStore::Write next = Stage(*store, second, first);
  EXPECT_EQ(next.patience, std::chrono::milliseconds(0)) << "nobody waits for that disk again";
  meta_.holds = false;
  disk.join();
  store->Commit(next);
  store->GoOut(next);
  EXPECT_TRUE(store->CanKeep());
  EXPECT_EQ(store->stats().num_lost, 1U);
  EXPECT_EQ(TextsOf(*store), (std::vector<std::string>{"one", "two"}));
}

TEST_F(BranchStoreTest, AFullDiskIsCountedAndTriedAgain) {
  const auto store = Open();
  const auto first = Next(nullptr, "one");
  Keep(*store, first);
  meta_.refuses = true;
  const auto second = Next(first, "two");
  Keep(*store, second, first);
  EXPECT_EQ(store->stats().num_lost, 1U);
  EXPECT_FALSE(store->CanKeep());
  meta_.refuses = false;
  EXPECT_TRUE(test::WaitUntil([&] { return store->CanKeep(); }, "the disk is asked again"));
  const auto third = Next(second, "three");
  Keep(*store, third, second);
  EXPECT_EQ(TextsOf(*store), (std::vector<std::string>{"one", "two", "three"}));
}

TEST_F(BranchStoreTest, AWriteThatNobodyTakesIsLost) {
  const auto store = Open();
  const auto first = Next(nullptr, "one");
  store->GoOut(Stage(*store, first));
  EXPECT_EQ(store->stats().num_lost, 1U);
  const auto second = Next(first, "two");
  Keep(*store, second, first);
  EXPECT_EQ(TextsOf(*store), (std::vector<std::string>{"one", "two"}));
}

TEST_F(BranchStoreTest, DamageIsFoundAndCountsAsLost) {
  for (const std::string_view kind : {"B", "C"}) {
    for (const bool is_running : {false, true}) {
      SCOPED_TRACE(std::string(kind) + (is_running ? " running" : ""));
      auto store = Open();
      const Identity conversation{.low = ++token_, .high = 5};
      const auto first = Next(nullptr, "first of " + std::to_string(token_));
      Keep(*store, first, nullptr, conversation);
      Keep(*store, Next(first, "more of " + std::to_string(token_)), first, conversation);
      if (!is_running) store = nullptr;
      Damage(Keys(kind).back());
      if (!is_running) store = Open();
      const uint64_t lost = store->stats().num_lost;
      EXPECT_TRUE(TextsOf(*store, conversation).empty());
      EXPECT_EQ(StandingOf(*store, conversation), Past::Standing::kLost);
      EXPECT_GE(store->stats().num_lost + (is_running ? 0 : 1), lost + 1);
      store = nullptr;
      store = Open();
      EXPECT_EQ(StandingOf(*store, conversation), Past::Standing::kLost) << "after a restart, too";
      EXPECT_TRUE(Keys("B").empty());
    }
  }
}

TEST_F(BranchStoreTest, RowsThatNameNoConversationMakeAllUnknownOnesLost) {
  {
    const auto store = Open();
    Keep(*store, Next(nullptr, "one"));
  }
  Damage(Keys("B")[0]);
  {
    const auto store = Open();
    EXPECT_EQ(StandingOf(*store, kTwo), Past::Standing::kLost);
  }
  now_us_ += kHourUs / 2;
  EXPECT_EQ(StandingOf(*Open(), kTwo), Past::Standing::kLost);
  now_us_ += kHourUs;
  EXPECT_EQ(StandingOf(*Open(), kTwo), Past::Standing::kUnknown);
}

TEST_F(BranchStoreTest, WhatIsTooOldOrTooMuchGoes) {
  {
    const auto store = Open();
    Keep(*store, Next(nullptr, "old"));
  }
  now_us_ += kHourUs + 1;
  bytes_max_ = 3000;
  const auto store = Open();
  EXPECT_EQ(StandingOf(*store), Past::Standing::kLost);
  EXPECT_EQ(store->stats().num_branches, 0U);
  for (uint64_t i = 0; i < 10; ++i) {
    now_us_ += 1'000;
    Keep(*store, Next(nullptr, std::string(500, static_cast<char>('a' + i))), nullptr,
         {.low = i, .high = 3});
  }
  EXPECT_LE(store->stats().bytes, 3000U);
  EXPECT_EQ(StandingOf(*store, {.low = 0, .high = 3}), Past::Standing::kLost);
  EXPECT_EQ(StandingOf(*store, {.low = 9, .high = 3}), Past::Standing::kKept);
  EXPECT_TRUE(test::WaitUntil(
      [&] {
        size_t bytes = 0;
        (void)meta_.Scan(MetaTable::kPrefixes, "",
                         [&](std::string_view key, std::string_view value) {
                           if (key[0] != 'L') bytes += key.size() + value.size();
                           return true;
                         });
        return bytes <= 3000;
      },
      "it is deleted on the disk, too"));
}

TEST_F(BranchStoreTest, NothingStandsInClear) {
  const auto store = Open();
  Keep(*store, Next(nullptr, "a very secret prompt"));
  EXPECT_FALSE(Keys("").empty());
  (void)meta_.Scan(MetaTable::kPrefixes, "", [&](std::string_view key, std::string_view value) {
    EXPECT_EQ(key.find("secret"), std::string_view::npos);
    EXPECT_EQ(value.find("secret"), std::string_view::npos);
    return true;
  });
  // A row of one tenant does not open as another's.
  const std::string key = Keys("B")[0];
  const std::string value = **meta_.Get(MetaTable::kPrefixes, key);
  EXPECT_TRUE(Unseal(store::file::kBranchKind, meta_.keyring(), key, value, key.substr(1, 16)));
  EXPECT_FALSE(Unseal(store::file::kBranchKind, meta_.keyring(), key, value, "another's"));
}

TEST_F(BranchStoreTest, ADisabledStoreForgetsEverythingAndSaysSo) {
  {
    const auto store = Open();
    Keep(*store, Next(nullptr, "one"));
  }
  {
    const auto store = Open(false);
    EXPECT_FALSE(store->CanKeep());
    EXPECT_EQ(StandingOf(*store), Past::Standing::kLost);
  }
  EXPECT_TRUE(Keys("B").empty());
  EXPECT_TRUE(Keys("C").empty());
  EXPECT_EQ(StandingOf(*Open(false)), Past::Standing::kLost) << "a second start knows it, too";
  now_us_ += kHourUs + 1;
  EXPECT_EQ(StandingOf(*Open(false)), Past::Standing::kUnknown);
}

TEST_F(BranchStoreTest, ADisabledStoreThatHadNothingSaysNothing) {
  EXPECT_EQ(StandingOf(*Open(false)), Past::Standing::kUnknown);
  EXPECT_TRUE(Keys("").empty());
}

TEST_F(BranchStoreTest, RowsOfAnOlderSecretAreSealedAnew) {
  const std::string secret = Keyring::GenerateSecret();
  meta_.SetKeyring(*Keyring::Parse(secret, "test"));
  {
    const auto store = Open();
    Keep(*store, Next(nullptr, "one"));
  }
  const std::string key = Keys("B")[0];
  const std::string before = **meta_.Get(MetaTable::kPrefixes, key);
  meta_.SetKeyring(*Keyring::Parse(Keyring::GenerateSecret() + "," + secret, "test"));
  {
    const auto store = Open();
    EXPECT_EQ(TextsOf(*store), std::vector<std::string>{"one"});
  }
  EXPECT_NE(**meta_.Get(MetaTable::kPrefixes, key), before);
}

TEST_F(BranchStoreTest, ABranchThatWentOnElsewhereGoesOnInItsPlace) {
  auto store = Open();
  const auto first = Next(nullptr, "a");
  Keep(*store, first);
  // Another gateway has gone on from it, and what it sent was restored here.
  const auto elsewhere = Next(first, "b");
  const auto keep = [&](Identity conversation, std::vector<uint64_t> instead) {
    const auto write = store->Stage({.tenant = "t",
                                     .branch = Next(elsewhere, "c"),
                                     .before = elsewhere,
                                     .keys = {conversation},
                                     .instead = std::move(instead)});
    ASSERT_TRUE(write);
    store->Commit(*write);
  };
  keep(kTwo, {first->token});
  EXPECT_EQ(store->stats().num_branches, 2U) << "it is another conversation";
  keep(kOne, {elsewhere->token, first->token});
  EXPECT_EQ(store->stats().num_branches, 2U);
  store = nullptr;
  store = Open();
  EXPECT_EQ(TextsOf(*store), (std::vector<std::string>{"a", "b", "c"}));
}

}  // namespace
}  // namespace kvgate::service::branches
