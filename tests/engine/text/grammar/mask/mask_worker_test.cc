#include "engine/text/grammar/mask/mask_worker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>

#include "engine/text/grammar/mask/matcher.h"
#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::mask {
namespace {

// Holds the answers of a worker until one thread takes them.
class Mail {
 public:
  MatcherPool::Done Sender() {
    return [this](std::shared_ptr<Matcher> matcher) {
      const std::lock_guard lock(mutex_);
      answered_.push_back(std::move(matcher));
      came_.notify_one();
    };
  }
  std::shared_ptr<Matcher> Take() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(came_.wait_for(lock, std::chrono::minutes(2), [this] {
      return !answered_.empty();
    })) << "the worker does not answer";
    std::shared_ptr<Matcher> first = std::move(answered_.at(0));
    answered_.erase(answered_.begin());
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::shared_ptr<Matcher>> answered_;
};

std::shared_ptr<const CompiledGrammar> Compiled(std::string_view gbnf,
                                                const tokenizer::Tokenizer& tokenizer) {
  return std::make_shared<CompiledGrammar>(
      CompiledGrammar{.automaton = FromGbnf(gbnf), .trie = std::make_shared<TokenTrie>(tokenizer)});
}

// The masks are the same if the thread computes them at once or a worker computes them in parts.
TEST(MaskWorkerTest, AnswersAreThoseThatComeAtOnce) {
  const auto tokenizer = JsonTokenizer();
  const auto grammar = Compiled(
      "root ::= \"{\" (\"\\\"\" [^\"\\\\]{0,60} \"\\\":\" root)? \"}\" | [0-9]{1,30} | \"[\" root "
      "\"]\"",
      *tokenizer);
  // One unit of work per turn leaves nearly everything to the worker.
  MatcherPool lent({.turn_work_max = 1, .answer_work_max = 1});
  MatcherPool own;
  Mail mail;
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const std::shared_ptr<Matcher> later = lent.Start(grammar);
    const auto at_once = own.Start(grammar);
    std::optional<TokenId> token;
    for (int left = 50; left > 0; --left) {
      lent.BeginTurn();
      later->Ask({.token = token, .tokens_left = left});
      if (!lent.Pursue(later, mail.Sender())) lent.TakeBack(mail.Take());
      std::vector<uint64_t> mask((static_cast<size_t>(tokenizer->vocab_size()) + 63) / 64);
      ASSERT_TRUE(!token || at_once->AcceptToken(*token));
      ASSERT_TRUE(at_once->FillMask(mask, left).has_value());
      ASSERT_TRUE(later->is_answered());
      ASSERT_TRUE(later->answer().accepted);
      ASSERT_EQ(later->answer().mask, mask);
      ASSERT_EQ(later->answer().can_end, at_once->CanEnd());
      ASSERT_EQ(later->answer().is_complete, at_once->IsComplete());
      const std::vector<TokenId> tokens = TokensIn(mask);
      if (tokens.empty() || at_once->IsComplete()) break;
      token = tokens[random() % tokens.size()];
      if (grammar->trie->is_end_token(*token)) break;
    }
    lent.Release(later);
  }
}

// A grammar whose first mask costs more steps than an answer may take ends its own text with an
// error, within bounded memory, and leaves others alone.
TEST(MaskWorkerTest, WhatCostsTooMuchIsAnErrorOfItsOwn) {
  const auto tokenizer = JsonTokenizer();
  std::string many = "root ::= ";
  for (int i = 0; i < 6'000; ++i) many += "(\"a\" | \"b\"){0,9} ";
  const auto costly = Compiled(many, *tokenizer);
  const auto cheap = Compiled("root ::= [a-z]+", *tokenizer);
  MatcherPool pool({.turn_work_max = 60'000});
  Mail mail;
  const std::shared_ptr<Matcher> bad = pool.Start(costly);
  const std::shared_ptr<Matcher> good = pool.Start(cheap);
  bool failed = false;
  std::optional<TokenId> next_bad;
  std::optional<TokenId> next_good;
  for (int left = 40; left > 0; --left) {
    pool.BeginTurn();
    if (!failed) bad->Ask({.token = next_bad, .tokens_left = left});
    const bool bad_waits = !failed && !pool.Pursue(bad, mail.Sender());
    good->Ask({.token = next_good, .tokens_left = left});
    const bool good_waits = !pool.Pursue(good, mail.Sender());
    for (int i = (bad_waits ? 1 : 0) + (good_waits ? 1 : 0); i > 0; --i) {
      pool.TakeBack(mail.Take());
    }
    failed = bad->answer().error.has_value();
    EXPECT_FALSE(good->answer().error.has_value());
    EXPECT_TRUE(good->answer().accepted);
    EXPECT_FALSE(TokensIn(good->answer().mask).empty());
    EXPECT_LE(bad->table().bytes(), size_t{64} << 20);
    next_bad = 'a';
    next_good = 'q';
  }
  ASSERT_TRUE(failed);
  EXPECT_EQ(bad->answer().error->code, ErrorCode::kInvalidArgument);
  pool.Release(bad);
  pool.Release(good);
}

// A matcher released while a worker computes its answer is not touched again, and its table keeps
// working for others.
TEST(MaskWorkerTest, AMatcherMayLeaveWhileItsTableIsLent) {
  const auto tokenizer = JsonTokenizer();
  const auto grammar = Compiled("root ::= ([a-z]{0,40} \" \"?){0,40}", *tokenizer);
  MatcherPool pool({.turn_work_max = 1, .answer_work_max = 1});
  Mail mail;
  for (int round = 0; round < 50; ++round) {
    pool.BeginTurn();
    const std::shared_ptr<Matcher> stays = pool.Start(grammar);
    std::shared_ptr<Matcher> leaves = pool.Start(grammar);
    leaves->Ask({.tokens_left = 10});
    const bool is_lent = !pool.Pursue(leaves, mail.Sender());
    stays->Ask({.tokens_left = 10});
    const bool stays_waits = !pool.Pursue(stays, mail.Sender());
    pool.Release(std::move(leaves));
    for (int i = (is_lent ? 1 : 0) + (stays_waits ? 1 : 0); i > 0; --i) {
      pool.TakeBack(mail.Take());
    }
    EXPECT_TRUE(stays->answer().accepted);
    EXPECT_FALSE(stays->answer().mask.empty());
    pool.Release(stays);
  }
}

}  // namespace
}  // namespace kvgate::grammar::mask
