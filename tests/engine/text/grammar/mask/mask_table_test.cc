#include "engine/text/grammar/mask/mask_table.h"

#include <gtest/gtest.h>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::mask {
namespace {

// Finds the tokens whose bytes lead on from `state` by trying each one.
std::vector<TokenId> TryAll(StateTable& states, const TokenTrie& trie, StateId state) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < trie.vocab_size(); ++token) {
    StateId next = trie.bytes_of(token).empty() ? StateTable::kDead : state;
    for (const char byte : trie.bytes_of(token))
      next = states.Next(next, static_cast<uint8_t>(byte));
    const bool ends = trie.is_end_token(token) && states.can_end(state);
    if (next != StateTable::kDead || ends) tokens.push_back(token);
  }
  return tokens;
}

constexpr std::string_view kGrammars[] = {
    "root ::= \"{\" (\"\\\"\" [^\"\\\\]{0,60} \"\\\":\" root)? \"}\" | [0-9]{1,30} | \"[\" root "
    "\"]\"",
    "root ::= (\"aa\" | \"aaa\"){3,70} \"b\"?",
    "root ::= .* \"é\" .{3}",
    "root ::= \"[\" root (\",\" root){0,40} \"]\" | \"{{\" root \"}}\" | \"x\"",
};

TEST(MaskTableTest, AMaskIsWhatTryingEveryTokenGives) {
  const auto tokenizer = JsonTokenizer();
  const auto trie = std::make_shared<TokenTrie>(*tokenizer);
  std::mt19937 random(4);
  for (const std::string_view text : kGrammars) {
    const auto grammar = std::make_shared<CompiledGrammar>(
        CompiledGrammar{.automaton = FromGbnf(text), .trie = trie});
    // The second bound makes the table forget all the time.
    for (const size_t bytes_max : {size_t{8} << 20, size_t{20'000}}) {
      MaskTable table(grammar, {.bytes_max = bytes_max});
      for (int round = 0; round < 20; ++round) {
        MaskTable::User user;
        table.Add(user);
        for (int step = 0; step < 60; ++step) {
          std::vector<uint64_t> mask((static_cast<size_t>(trie->vocab_size()) + 63) / 64, ~0ull);
          ASSERT_TRUE(table.FillMask(user, mask, 1'000'000).has_value());
          const std::vector<TokenId> tokens = TokensIn(mask);
          ASSERT_EQ(tokens, TryAll(table.states(), *trie, user.state)) << text;
          if (tokens.empty()) break;
          const TokenId token = tokens[random() % tokens.size()];
          if (trie->is_end_token(token)) break;
          for (const char byte : trie->bytes_of(token)) {
            user.state = table.states().Next(user.state, static_cast<uint8_t>(byte));
          }
        }
        table.Remove(user);
      }
    }
  }
}

TEST(MaskTableTest, RepeatedStatesShareTheirMask) {
  const auto tokenizer = JsonTokenizer();
  const auto grammar = std::make_shared<CompiledGrammar>(
      CompiledGrammar{.automaton = FromSchema(R"({"type":"string","maxLength":1000})"),
                      .trie = std::make_shared<TokenTrie>(*tokenizer)});
  MaskTable table(grammar, {});
  MaskTable::User user;
  table.Add(user);
  std::vector<uint64_t> mask((static_cast<size_t>(tokenizer->vocab_size()) + 63) / 64);
  user.state = table.states().Next(user.state, '"');
  for (int i = 0; i < 900; ++i) {
    ASSERT_TRUE(table.FillMask(user, mask, 1'000'000).has_value());
    user.state = table.states().Next(user.state, 'a');
  }
  EXPECT_EQ(table.num_masks(), 1u);
  table.Remove(user);
}

TEST(MaskTableTest, WhatCostsTooMuchIsAnError) {
  const auto tokenizer = JsonTokenizer();
  const auto grammar = std::make_shared<CompiledGrammar>(
      CompiledGrammar{.automaton = FromGbnf("root ::= .* \"a\" .{20}"),
                      .trie = std::make_shared<TokenTrie>(*tokenizer)});
  MaskTable table(grammar, {.mask_work_max = 100});
  MaskTable::User user;
  table.Add(user);
  std::vector<uint64_t> mask((static_cast<size_t>(tokenizer->vocab_size()) + 63) / 64);
  const auto filled = table.FillMask(user, mask, 1'000);
  ASSERT_FALSE(filled.has_value());
  EXPECT_EQ(filled.error().code, ErrorCode::kInvalidArgument);
  table.Remove(user);
}

}  // namespace
}  // namespace kvgate::grammar::mask
