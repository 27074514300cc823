#include "gateway/prompt/history/conversation_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace kvgate::prompt::history {

using parse::Identity;

namespace {

Identity Key(uint64_t i) { return {i, i}; }
// A branch that has had an answer, unless it is a first request.
std::shared_ptr<Branch> BranchOf(size_t bytes, bool is_first = false) {
  auto branch = std::make_shared<Branch>();
  if (!is_first) {
    SentSegment answer;
    answer.place.section = parse::Section::kMessages;
    answer.role = parse::Role::kAssistant;
    branch->request.segments.push_back(std::move(answer));
  }
  branch->bytes = bytes;
  return branch;
}

TEST(ConversationMemory, ABranchThatIsGoneOnFromStaysBehindTheNewOne) {
  ConversationMemory memory(1 << 20);
  const auto first = BranchOf(10);
  const auto second = BranchOf(20);
  const std::vector<Identity> keys = {Key(1)};
  memory.Remember({.conversation = Key(1), .aliases = {}, .branch = first});
  const size_t bytes = memory.num_bytes();
  memory.Remember({.conversation = Key(1), .aliases = {}, .branch = second, .replaced = first});
  ASSERT_EQ(memory.Find(keys).size(), 2U);
  EXPECT_EQ(memory.Find(keys)[0], second);
  EXPECT_EQ(memory.Find(keys)[1], first);
  memory.Withdraw(Key(1), second, first);
  ASSERT_EQ(memory.Find(keys).size(), 1U);
  EXPECT_EQ(memory.Find(keys)[0], first);
  EXPECT_EQ(memory.num_bytes(), bytes) << "it counts in full again";
  memory.Withdraw(Key(1), first, nullptr);
  EXPECT_TRUE(memory.Find(keys).empty());
  EXPECT_EQ(memory.num_bytes(), 0U);
}

TEST(ConversationMemory, AFirstRequestThatIsGoneOnFromStaysForItsHelpersCaller) {
  ConversationMemory memory(1 << 20);
  const auto first = BranchOf(10, true);
  const auto second = BranchOf(20);
  const std::vector<Identity> keys = {Key(1)};
  memory.Remember({.conversation = Key(1), .aliases = {}, .branch = first});
  memory.Remember({.conversation = Key(1), .aliases = {}, .branch = second, .replaced = first});
  EXPECT_EQ(memory.Find(keys), (ConversationMemory::Branches{second, first}));
  memory.Withdraw(Key(1), second, first);
  EXPECT_EQ(memory.Find(keys), ConversationMemory::Branches{first});
}

TEST(ConversationMemory, WhatIsRestoredIsFoundUnderAllOfItsNames) {
  ConversationMemory memory(1 << 20);
  const auto known = BranchOf(10);
  known->token = 1;
  memory.Remember({.conversation = Key(1), .aliases = {}, .branch = known});
  const std::vector<Identity> keys = {Key(1), Key(2)};
  const std::vector<std::shared_ptr<Branch>> same = {known};
  memory.Restore({.keys = keys, .branches = same});
  EXPECT_EQ(memory.Find(std::vector<Identity>{Key(2)}), ConversationMemory::Branches{known});
  const auto other = BranchOf(10);
  other->token = 2;
  other->before = 1;
  const std::vector<std::shared_ptr<Branch>> both = {other, known};
  memory.Restore({.keys = keys, .branches = both});
  EXPECT_EQ(memory.Find(std::vector<Identity>{Key(2)}),
            (ConversationMemory::Branches{other, known}));
}

// A session that leaves out its oldest turns again and again has a line for each of its windows.
TEST(ConversationMemory, TheNewestOfEachLineStaysHoweverLongTheLines) {
  ConversationMemory memory(1 << 20);
  const std::vector<Identity> keys = {Key(1)};
  std::vector<std::shared_ptr<const Branch>> newest;
  for (int line = 0; line < 16; ++line) {
    std::shared_ptr<Branch> before;
    for (int i = 0; i < 30; ++i) {
      const auto branch = BranchOf(10);
      memory.Remember(
          {.conversation = Key(1), .aliases = {}, .branch = branch, .replaced = before});
      before = branch;
    }
    newest.push_back(before);
  }
  const auto kept = memory.Find(keys);
  EXPECT_LE(kept.size(), 48U);
  for (const auto& branch : newest) {
    EXPECT_NE(std::find(kept.begin(), kept.end(), branch), kept.end());
  }
}

TEST(ConversationMemory, AConversationIsFoundByItsAgentUntilItsFirstAnswerIsKnown) {
  ConversationMemory memory(1 << 20);
  const std::vector<Identity> keys = {Key(9)};
  const auto first_of = [&](size_t bytes) {
    auto branch = BranchOf(bytes, true);
    FirstTurn turn;
    turn.kin = keys;
    branch->first_turn = std::make_shared<const FirstTurn>(turn);
    return branch;
  };
  const auto first = first_of(10);
  const auto other = first_of(11);
  memory.Remember({.conversation = Key(1), .aliases = {}, .branch = first});
  memory.Remember({.conversation = Key(2), .aliases = {}, .branch = other});
  EXPECT_EQ(memory.Find(keys).size(), 2U);
  const auto second = BranchOf(20);
  memory.Remember({.conversation = Key(1), .aliases = {}, .branch = second, .replaced = first});
  EXPECT_EQ(memory.Find(keys), ConversationMemory::Branches{other});
  memory.Withdraw(Key(1), second, first);
  EXPECT_EQ(memory.Find(keys).size(), 2U) << "its answer did not come";
}

TEST(ConversationMemory, OfALineTheOlderOnesAreKeptAtDistancesThatDouble) {
  ConversationMemory memory(1 << 20);
  const std::vector<Identity> keys = {Key(1)};
  std::vector<std::shared_ptr<Branch>> sent;
  for (size_t i = 0; i < 100; ++i) {
    sent.push_back(BranchOf(10));
    const std::shared_ptr<Branch> before = i > 0 ? sent[i - 1] : nullptr;
    memory.Remember({.conversation = Key(1), .aliases = {}, .branch = sent[i], .replaced = before});
    const auto found = memory.Find(keys);
    EXPECT_LE(found.size(), 22U);
    // The newest are kept, and of older ones one that is at most four times as far back.
    for (size_t distance = 1; distance <= i; ++distance) {
      const size_t oldest = i - std::min(i, distance <= 16 ? distance : 4 * distance);
      const bool is_kept = std::any_of(found.begin(), found.end(), [&](const auto& branch) {
        const auto at = std::find(sent.begin(), sent.end(), branch) - sent.begin();
        return static_cast<size_t>(at) >= oldest && static_cast<size_t>(at) <= i - distance;
      });
      EXPECT_TRUE(is_kept || (distance > 16 && oldest == 0)) << "of " << i << " at " << distance;
    }
  }
  // A helper that begins at an older one is a line of its own.
  const auto kept = memory.Find(keys);
  const auto helper = BranchOf(10);
  memory.Remember(
      {.conversation = Key(1), .aliases = {}, .branch = helper, .replaced = kept[kept.size() / 2]});
  EXPECT_EQ(memory.Find(keys).size(), kept.size() + 1);
  for (const auto& branch : memory.Find(keys)) {
    memory.Withdraw(Key(1), std::const_pointer_cast<Branch>(branch), nullptr);
  }
  EXPECT_EQ(memory.num_bytes(), 0U);
}

TEST(ConversationMemory, ConversationsAreFoundUnderTheAliasesTheyShare) {
  ConversationMemory memory(1 << 20);
  const std::vector<Identity> aliases = {Key(100), Key(200)};
  std::vector<std::shared_ptr<Branch>> sent;
  for (uint64_t i = 0; i < 40; ++i) {
    sent.push_back(BranchOf(10));
    memory.Remember({.conversation = Key(i), .aliases = aliases, .branch = sent.back()});
  }
  // Those of the request's own id come first, then the newest ones, each once.
  const std::vector<Identity> keys = {Key(38), Key(100), Key(200)};
  const ConversationMemory::Branches found = memory.Find(keys);
  ASSERT_EQ(found.size(), 32U) << "the newest that share an alias";
  EXPECT_EQ(found[0], sent[38]);
  EXPECT_EQ(found[1], sent[39]);
  EXPECT_EQ(found[2], sent[37]);
  EXPECT_EQ(found[31], sent[8]);
  const std::vector<Identity> unknown = {Key(300), Key(400)};
  EXPECT_TRUE(memory.Find(unknown).empty());
  for (uint64_t i = 0; i < 40; ++i) memory.Withdraw(Key(i), sent[i], nullptr);
  EXPECT_TRUE(memory.Find(keys).empty());
  EXPECT_EQ(memory.num_bytes(), 0U);
}

TEST(ConversationMemory, OfAConversationsAliasesTheNewestAreKept) {
  ConversationMemory memory(1 << 20);
  for (uint64_t i = 0; i < 20; ++i) {
    const std::vector<Identity> aliases = {Key(100 + i)};
    memory.Remember({.conversation = Key(1), .aliases = aliases, .branch = BranchOf(10)});
  }
  const std::vector<Identity> oldest = {Key(100)};
  const std::vector<Identity> newest = {Key(119)};
  EXPECT_TRUE(memory.Find(oldest).empty());
  EXPECT_EQ(memory.Find(newest).size(), 20U);
}

TEST(ConversationMemory, OfOneConversationsBranchesTheOldestGoesFirst) {
  ConversationMemory memory(1 << 20);
  const std::vector<Identity> keys = {Key(1)};
  std::vector<std::shared_ptr<Branch>> sent;
  size_t bytes = 0;
  for (size_t i = 0; i < 56; ++i) {
    sent.push_back(BranchOf(100 + i));
    memory.Remember({.conversation = Key(1), .aliases = {}, .branch = sent.back()});
    if (i == 47) bytes = memory.num_bytes();
  }
  const std::vector<std::shared_ptr<const Branch>> kept = memory.Find(keys);
  EXPECT_EQ(kept, std::vector<std::shared_ptr<const Branch>>(sent.rbegin(), sent.rbegin() + 48));
  EXPECT_EQ(memory.num_bytes(), bytes + 8 * 48) << "eight went, and eight of 48 bytes more came";
  for (const auto& branch : sent) memory.Withdraw(Key(1), branch, nullptr);
  EXPECT_EQ(memory.num_bytes(), 0U);
}

TEST(ConversationMemory, ItIsBoundedAndTheSilentOnesGoFirst) {
  ConversationMemory memory(100'000);
  for (uint64_t i = 0; i < 200; ++i) {
    const std::vector<Identity> aliases = {Key(1000 + i)};
    memory.Remember({.conversation = Key(i), .aliases = aliases, .branch = BranchOf(5000)});
    memory.Remember({.conversation = Key(0), .aliases = {}, .branch = BranchOf(10)});
    ASSERT_LE(memory.num_bytes(), 100'000U);
  }
  const std::vector<Identity> first = {Key(0)};
  const std::vector<Identity> early = {Key(1), Key(1001)};
  EXPECT_FALSE(memory.Find(first).empty());
  EXPECT_TRUE(memory.Find(early).empty());
}

TEST(ConversationMemory, WhoHasMoreThanHalfMakesRoomAndOthersKeepTheirs) {
  ConversationMemory memory(100'000);
  const auto remember = [&](uint64_t tenant, uint64_t conversation, size_t bytes) {
    memory.Remember({.tenant = Key(tenant),
                     .conversation = Key(conversation),
                     .aliases = {},
                     .branch = BranchOf(bytes)});
    EXPECT_LE(memory.num_bytes(), 100'000U);
  };
  const auto is_known = [&](uint64_t conversation) {
    const std::vector<Identity> keys = {Key(conversation)};
    return !memory.Find(keys).empty();
  };
  for (uint64_t i = 0; i < 5; ++i) remember(1, i, 2000);
  for (uint64_t i = 0; i < 1000; ++i) remember(2, 1000 + i, 1000 + i);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(is_known(i)) << i;
  EXPECT_TRUE(is_known(1999));
  EXPECT_FALSE(is_known(1000));
  // An entry that would not fit at all evicts those of its own tenant, and is dropped itself.
  remember(2, 5000, 200'000);
  EXPECT_FALSE(is_known(5000));
  for (uint64_t i = 0; i < 5; ++i) EXPECT_TRUE(is_known(i)) << i;
  // The latest of very many tenants are known.
  for (uint64_t i = 0; i < 1000; ++i) remember(100 + i, 10'000 + i, 500);
  EXPECT_TRUE(is_known(10'999));
}

TEST(ConversationMemory, CountsOfAnAnswerAreWrittenOnce) {
  ConversationMemory memory(1 << 20);
  const auto branch = BranchOf(10);
  std::optional<SentRequest> copy;
  EXPECT_FALSE(memory.RequestOf(branch, copy).cached_tokens.has_value());
  EXPECT_TRUE(copy.has_value());
  ledger::reply::TokenUsage usage;
  usage.cache_read_tokens = 7;
  memory.Finish(branch, usage);
  usage.cache_read_tokens = 8;
  memory.Finish(branch, usage);
  EXPECT_EQ(memory.RequestOf(branch, copy).cached_tokens, 7);
}

TEST(ConversationMemory, BranchesReadFromElsewhereAreAddedOnce) {
  const auto known = BranchOf(10);
  const auto read = BranchOf(10);
  known->token = 1;
  read->token = 2;
  ConversationMemory::Branches branches = {known};
  AddUnknown({read, known, read}, branches);
  ASSERT_EQ(branches.size(), 2U);
  EXPECT_EQ(branches[0], known);
  EXPECT_EQ(branches[1], read);
}

TEST(ConversationMemory, ThreadsMayShareIt) {
  ConversationMemory memory(50'000);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      for (uint64_t i = 0; i < 500; ++i) {
        const auto branch = BranchOf(1000);
        const std::vector<Identity> keys = {Key((t + i) % 20)};
        const auto branches = memory.Find(keys);
        memory.Remember({.conversation = keys[0],
                         .aliases = {},
                         .branch = branch,
                         .replaced = branches.empty() ? nullptr : branches[0]});
        memory.Finish(branch, std::nullopt);
        if (i % 3 == 0) memory.Withdraw(keys[0], branch, nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(memory.num_bytes(), 50'000U);
}

}  // namespace
}  // namespace kvgate::prompt::history
