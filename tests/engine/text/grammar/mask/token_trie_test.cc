#include "engine/text/grammar/mask/token_trie.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/engine/text/grammar/grammar_fixture.h"

namespace kvgate::grammar::mask {
namespace {

TEST(TokenTrieTest, EveryTokenStandsAtTheEndOfItsBytes) {
  for (const auto& tokenizer :
       {JsonTokenizer(), tokenizer::SpmFixture(tokenizer::SpmPieces()).MustLoad()}) {
    const TokenTrie trie(*tokenizer);
    std::set<TokenId> seen;
    for (uint32_t index = 0; index < trie.num_nodes(); ++index) {
      const TokenTrie::Node& node = trie.node(index);
      if (index > 0) {
        ASSERT_LT(node.parent, index);
        ASSERT_EQ(trie.node(node.parent).depth + 1, node.depth);
        ASSERT_LE(node.end, trie.node(node.parent).end);
      }
      ASSERT_GT(node.end, index);
      for (const TokenId token : trie.tokens(index)) {
        std::string bytes;
        for (uint32_t at = index; at != 0; at = trie.node(at).parent) {
          bytes.insert(bytes.begin(), static_cast<char>(trie.node(at).byte));
        }
        ASSERT_EQ(bytes, tokenizer->TokenBytes(token));
        ASSERT_EQ(bytes, trie.bytes_of(token));
        ASSERT_TRUE(seen.insert(token).second);
      }
    }
    for (TokenId token = 0; token < tokenizer->vocab_size(); ++token) {
      const bool is_text = !tokenizer->TokenBytes(token).empty();
      ASSERT_EQ(seen.contains(token), is_text && !tokenizer->is_end_of_generation(token)) << token;
      ASSERT_EQ(trie.is_end_token(token), tokenizer->is_end_of_generation(token));
    }
    EXPECT_FALSE(trie.end_tokens().empty());
    EXPECT_EQ(trie.bytes_of(-1), "");
    EXPECT_EQ(trie.bytes_of(1'000'000), "");
  }
}

}  // namespace
}  // namespace kvgate::grammar::mask
