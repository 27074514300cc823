#include "engine/text/grammar/mask/matcher.h"

#include <gtest/gtest.h>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::mask {
namespace {

class MatcherTest : public testing::Test {
 protected:
  std::shared_ptr<const CompiledGrammar> Compile(SourceKind kind, std::string text) {
    auto made = compiler_.Compile({.kind = kind, .text = std::move(text)});
    EXPECT_TRUE(made.has_value()) << made.error().ToString();
    return *made;
  }

  std::vector<TokenId> Mask(Matcher& matcher, int tokens_left = 1000) {
    std::vector<uint64_t> mask((static_cast<size_t>(tokenizer_->vocab_size()) + 63) / 64);
    EXPECT_TRUE(matcher.FillMask(mask, tokens_left).has_value());
    return TokensIn(mask);
  }

  std::string Texts(const std::vector<TokenId>& tokens) {
    std::string texts;
    for (const TokenId token : tokens) texts += tokenizer_->TokenBytes(token, true) + " ";
    return texts;
  }

  const std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = JsonTokenizer();
  Compiler compiler_{*tokenizer_, {}};
  MatcherPool pool_;
};

TEST_F(MatcherTest, TokensThatEndAreAllowedOnlyWhereTheTextMayEnd) {
  const auto matcher = pool_.Start(Compile(SourceKind::kGbnf, "root ::= \"ab\" \"c\"?"));
  EXPECT_EQ(Texts(Mask(*matcher)), "a ab abc ");
  EXPECT_FALSE(matcher->AcceptToken('b'));
  EXPECT_FALSE(matcher->AcceptToken(tokenizer_->vocab_size() - 1));
  EXPECT_TRUE(matcher->AcceptToken('a'));
  EXPECT_FALSE(matcher->CanEnd());
  EXPECT_TRUE(matcher->AcceptToken('b'));
  EXPECT_EQ(Texts(Mask(*matcher)), "c <|end|> ");
  EXPECT_TRUE(matcher->CanEnd());
  EXPECT_FALSE(matcher->IsComplete());
  EXPECT_TRUE(matcher->AcceptToken(tokenizer_->vocab_size() - 1));
  EXPECT_TRUE(matcher->AcceptToken('c'));
  EXPECT_TRUE(matcher->IsComplete());
  EXPECT_EQ(Texts(Mask(*matcher)), "<|end|> ");
}

TEST_F(MatcherTest, MatchersOfOneGrammarAreApart) {
  const auto grammar = Compile(SourceKind::kJsonObject, "");
  const auto first = pool_.Start(grammar);
  const auto second = pool_.Start(grammar);
  EXPECT_TRUE(first->AcceptToken('{'));
  EXPECT_TRUE(first->AcceptToken('}'));
  EXPECT_TRUE(first->IsComplete());
  EXPECT_FALSE(second->CanEnd());
  EXPECT_TRUE(second->AcceptToken('{'));
}

TEST_F(MatcherTest, TheTextIsWholeWhenTheTokensAreUsedUp) {
  std::mt19937 random(5);
  const auto grammar =
      Compile(SourceKind::kJsonSchema,
              R"({"type":"object","properties":{"text":{"type":"string"},"more":{"$ref":"#"}},
          "required":["text"]})");
  for (int budget = 1; budget < 60; ++budget) {
    const auto matcher = pool_.Start(grammar);
    std::string text;
    for (int left = budget; left > 0 && !matcher->IsComplete(); --left) {
      const std::vector<TokenId> tokens = Mask(*matcher, left);
      ASSERT_FALSE(tokens.empty());
      const TokenId token = tokens[random() % tokens.size()];
      ASSERT_TRUE(matcher->AcceptToken(token));
      text += tokenizer_->TokenBytes(token);
    }
    const bool fits = budget >= static_cast<int>(std::string_view(R"({"text":""})").size());
    EXPECT_TRUE(matcher->CanEnd() || !fits) << budget << text;
  }
}

TEST_F(MatcherTest, LearningsOutliveMatchersUpToABound) {
  std::vector<std::unique_ptr<Matcher>> matchers;
  for (size_t i = 0; i < 2 * MatcherPool::kTablesMax; ++i) {
    const std::string text = "x" + std::to_string(i);
    matchers.push_back(pool_.Start(Compile(SourceKind::kGbnf, "root ::= \"" + text + "\"")));
  }
  for (auto& matcher : matchers) EXPECT_TRUE(matcher->AcceptToken('x'));
}

}  // namespace
}  // namespace kvgate::grammar::mask
