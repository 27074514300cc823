#include "engine/text/tokenizer/vocabulary/byte_trie.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace kvgate::tokenizer::vocabulary {
namespace {

std::optional<int32_t> Find(const ByteTrie& trie, std::string_view text) {
  uint32_t node = trie.First(static_cast<uint8_t>(text[0]));
  for (size_t i = 1; i < text.size() && node != ByteTrie::kNone; ++i) {
    node = trie.Next(node, static_cast<uint8_t>(text[i]));
  }
  return node == ByteTrie::kNone ? std::nullopt : trie.value(node);
}

TEST(ByteTrieTest, FindsWhatAMapFinds) {
  std::mt19937_64 random(1);
  const auto random_text = [&] {
    std::string text;
    for (size_t i = 0; i < 1 + random() % 5; ++i) text += static_cast<char>('a' + random() % 3);
    if (random() % 8 == 0) text += '\xFF';
    return text;
  };
  for (int round = 0; round < 50; ++round) {
    std::map<std::string, int32_t> model;
    std::vector<std::string> texts;
    for (int i = 0; i < 40; ++i) texts.push_back(random_text());
    std::vector<ByteTrie::Entry> entries;
    for (size_t i = 0; i < texts.size(); ++i) {
      model.emplace(texts[i], static_cast<int32_t>(i));  // of equal texts the first one counts
      entries.emplace_back(texts[i], static_cast<int32_t>(i));
    }
    const ByteTrie trie(entries);
    for (int i = 0; i < 200; ++i) {
      const std::string text = random_text();
      const auto expected = model.find(text);
      const auto found = Find(trie, text);
      ASSERT_EQ(found.has_value(), expected != model.end()) << text;
      if (found) {
        EXPECT_EQ(*found, expected->second);
      }
    }
  }
}

TEST(ByteTrieTest, WithoutEntriesNothingBegins) {
  EXPECT_EQ(ByteTrie().First('a'), ByteTrie::kNone);
  const ByteTrie::Entry empty[] = {{"", 3}};
  EXPECT_EQ(ByteTrie(empty).First('a'), ByteTrie::kNone);
}

}  // namespace
}  // namespace kvgate::tokenizer::vocabulary
