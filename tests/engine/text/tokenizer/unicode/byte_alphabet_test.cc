#include "engine/text/tokenizer/unicode/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer::unicode {
namespace {

TEST(ByteAlphabetTest, EveryByteHasItsOwnSpellingAndIsReadBack) {
  const ByteAlphabet& alphabet = ByteAlphabet::Get();
  std::set<std::string> seen;
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(alphabet.Spell(static_cast<uint8_t>(byte)), SpellByte(byte));
    EXPECT_TRUE(seen.insert(alphabet.Spell(static_cast<uint8_t>(byte))).second);
    all += static_cast<char>(byte);
  }
  EXPECT_EQ(alphabet.Spell(" a\n"), "ĠaĊ");
  EXPECT_EQ(alphabet.Read(alphabet.Spell(all)), all);
}

TEST(ByteAlphabetTest, WhatIsNoSpellingStandsForItself) {
  EXPECT_EQ(ByteAlphabet::Get().Read("日\xFF"), "日\xFF");
}

}  // namespace
}  // namespace kvgate::tokenizer::unicode
