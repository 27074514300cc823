#include "engine/text/grammar/mask/grammar_memory.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/text/grammar/mask/matcher.h"
#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::mask {
namespace {

using Shared = std::shared_ptr<const CompiledGrammar>;

constexpr size_t kMebibyte = size_t{1} << 20;

// Returns a grammar of some hundred KiB per unit that equals no grammar of another name.
CompiledGrammar Made(size_t units, size_t name) {
  static const auto tokenizer = JsonTokenizer();
  static const auto trie = std::make_shared<TokenTrie>(*tokenizer);
  const std::string text = std::to_string(name) + std::string(4'000 * units, 'x');
  return {.automaton = FromGbnf("root ::= \"" + text + "\""), .trie = trie};
}

size_t BytesOf(const CompiledGrammar& grammar) { return grammar.automaton.bytes(); }

class GrammarMemoryTest : public testing::Test {
 protected:
  // Sets the bound so that `num_large` large grammars fit.
  void SetRoom(size_t num_large) {
    const size_t bytes = num_large * (BytesOf(Made(8, 0)) + 10);
    memory_ = std::make_shared<GrammarMemory>(
        GrammarMemory::Options{.bytes_max = bytes / 9 * 16 + 16, .remembered_bytes_max = SIZE_MAX});
  }
  Result<Shared> Add(size_t units, size_t name) {
    return memory_->Add("g" + std::to_string(name), Made(units, name));
  }

  std::shared_ptr<GrammarMemory> memory_;
};

TEST_F(GrammarMemoryTest, WhatIsOnlyRememberedMakesRoomAndTheLeastRecentlyUsedGoesFirst) {
  SetRoom(3);
  for (size_t name = 0; name < 3; ++name) ASSERT_TRUE(Add(8, name).has_value());
  ASSERT_NE(memory_->Find("g0"), nullptr);
  ASSERT_TRUE(Add(8, 3).has_value());
  EXPECT_NE(memory_->Find("g0"), nullptr);
  EXPECT_EQ(memory_->Find("g1"), nullptr);
  EXPECT_NE(memory_->Find("g3"), nullptr);
  EXPECT_LE(memory_->grammar_bytes(), memory_->options().bytes_max);
}

TEST_F(GrammarMemoryTest, WhatIsInUseIsKeptAndTheNextLargeOneIsRefusedUntilOneGoes) {
  SetRoom(3);
  std::vector<Shared> in_use;
  for (size_t name = 0; name < 3; ++name) in_use.push_back(Add(8, name).value());
  const Result<Shared> refused = Add(8, 3);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  EXPECT_TRUE(refused.error().retryable);
  EXPECT_NE(refused.error().detail.find("engine.grammar_memory"), std::string::npos);
  for (size_t name = 0; name < 3; ++name) {
    EXPECT_EQ(memory_->Find("g" + std::to_string(name)), in_use[name]);
  }
  in_use.erase(in_use.begin());
  EXPECT_TRUE(Add(8, 3).has_value());
}

TEST_F(GrammarMemoryTest, SmallOnesFindRoomWhenLargeOnesDoNot) {
  SetRoom(40);
  std::vector<Shared> in_use;
  for (size_t name = 0;; ++name) {
    const Result<Shared> large = Add(8, name);
    if (!large) break;
    in_use.push_back(*large);
  }
  EXPECT_TRUE(Add(0, 1'000'000).has_value());
}

TEST_F(GrammarMemoryTest, WhatNeverFitsIsNoReasonToTryAgain) {
  SetRoom(2);
  const Result<Shared> refused = Add(40, 0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
  EXPECT_FALSE(refused.error().retryable);
}

TEST_F(GrammarMemoryTest, AGrammarCountsAsLongAsSomebodyHoldsIt) {
  memory_ = std::make_shared<GrammarMemory>(GrammarMemory::Options{.remembered_max = 1});
  Shared held = Add(8, 0).value();
  ASSERT_TRUE(Add(0, 1).has_value());
  EXPECT_EQ(memory_->Find("g0"), nullptr);
  EXPECT_GT(memory_->grammar_bytes(), BytesOf(*held));
  const size_t small = memory_->grammar_bytes() - BytesOf(*held);
  held = nullptr;
  EXPECT_LE(memory_->grammar_bytes(), small);
}

// Many costly grammars run at once: all masks together stay within the bound, and each mask equals
// that of a table that forgets nothing.
TEST_F(GrammarMemoryTest, MasksOfAllTextsStayWithinTheirBoundAndAreRight) {
  memory_ = std::make_shared<GrammarMemory>(GrammarMemory::Options{.bytes_max = 4 * kMebibyte});
  const auto tokenizer = JsonTokenizer();
  Compiler compiler(*tokenizer, {.memory = memory_});
  MatcherPool bounded({.memory = memory_});
  MatcherPool free;
  std::mt19937 random(6);
  struct Text {
    std::unique_ptr<Matcher> bounded;
    std::unique_ptr<Matcher> free;
  };
  std::vector<Text> texts;
  for (int i = 0; i < 12; ++i) {
    std::string gbnf = "root ::= \"" + std::to_string(i) + "\"?";
    for (int part = 0; part < 900; ++part) gbnf += " [a-z" + std::string(1, 'A' + part % 26) + "]*";
    const Shared grammar = compiler.Compile({.kind = SourceKind::kGbnf, .text = gbnf}).value();
    texts.push_back({.bounded = bounded.Start(grammar), .free = free.Start(grammar)});
  }
  std::vector<uint64_t> mask((static_cast<size_t>(tokenizer->vocab_size()) + 63) / 64);
  std::vector<uint64_t> expected = mask;
  size_t most = 0;
  size_t unbounded = 0;
  for (int step = 0; step < 12; ++step) {
    for (Text& text : texts) {
      bounded.BeginTurn();
      free.BeginTurn();
      ASSERT_TRUE(text.bounded->FillMask(mask, 1'000).has_value());
      ASSERT_TRUE(text.free->FillMask(expected, 1'000).has_value());
      ASSERT_EQ(mask, expected);
      const std::vector<TokenId> tokens = TokensIn(mask);
      const TokenId token = tokens[random() % tokens.size()];
      if (text.free->table().grammar().trie->is_end_token(token)) continue;
      ASSERT_TRUE(text.bounded->AcceptToken(token));
      ASSERT_TRUE(text.free->AcceptToken(token));
    }
    for (int turn = 0; turn < 12; ++turn) bounded.BeginTurn();
    most = std::max(most, bounded.bytes());
    free.BeginTurn();
    unbounded = std::max(unbounded, free.bytes());
  }
  const size_t grammars = memory_->grammar_bytes();
  const size_t masks_max = memory_->masks_bytes_max();
  EXPECT_LE(most - grammars, std::max(masks_max, 12 * MatcherPool::kKeptBytesMin));
  EXPECT_GT(unbounded - grammars, masks_max);
}

}  // namespace
}  // namespace kvgate::grammar::mask
