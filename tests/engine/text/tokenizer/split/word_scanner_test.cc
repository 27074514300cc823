#include "engine/text/tokenizer/split/word_scanner.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/text/tokenizer/unicode/regex.h"
#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer::split {

using unicode::Regex;

namespace {

using Style = WordShape::Style;

// Returns the ends of the words by the regular expression that is the specification.
std::vector<size_t> EndsByExpression(const WordShape& shape, std::string_view text) {
  const Regex regex = Regex::MustCompile(shape.Expression());
  const Regex::Matcher matcher;
  std::vector<size_t> ends;
  for (size_t position = 0; position < text.size();) {
    const Regex::Match match = matcher.Next(regex, text, position);
    EXPECT_EQ(match.begin, position) << "the expression leaves a gap in " << text;
    ends.push_back(position = match.end);
  }
  return ends;
}

// Returns random text of characters and runs that the shapes tell apart.
std::string RandomCharacters(std::mt19937_64& random) {
  static const std::vector<std::string> parts = {
      " ",      "  ",     "\n",     "\r\n",   "\t",     "'",    "'s", "'S",     "'\u017f",
      "'ll",    "'Re",    "'v",     "a",      "Z",      "é",    "日", "\u0301", "\u0903",
      "1",      "½",      "٣",      "23",     "!",      "/",    "-_", "👍",      "$",
      "\u00a0", "\u3000", "\u2028", "\u180e", "\u200d", "\x01", "ſ",  "\u0345"};
  std::string text;
  for (size_t left = random() % 24; left > 0; --left) {
    const std::string& part = parts[random() % parts.size()];
    for (size_t count = random() % 8 == 0 ? random() % 40 : 1; count > 0; --count) text += part;
  }
  return text;
}

TEST(WordScannerTest, EveryShapeCutsAsItsExpressionDoes) {
  const std::vector<WordShape> shapes = {
      {.style = Style::kGpt2},
      {.style = Style::kLlama3, .digits_max = 3},
      {.style = Style::kLlama3, .digits_max = 1},
      {.style = Style::kLlama3, .digits_max = 0},
      {.style = Style::kLlama3, .digits_max = 1, .marks_are_letters = true},
      {.style = Style::kLlama3, .digits_max = 1, .has_contractions = false},
      {.style = Style::kLlama3, .digits_max = 3, .chunks_spaces = true},
      {.style = Style::kLlama3, .digits_max = 3, .slash_ends_symbols = true}};
  std::mt19937_64 random(11);
  for (const WordShape& shape : shapes) {
    const WordScanner scanner(shape);
    for (int round = 0; round < 3000; ++round) {
      const std::string text =
          round % 2 == 0 ? RandomCharacters(random) : RandomText(random, random() % 30, false);
      std::vector<size_t> ends;
      scanner.Cut(text, 0, ends);
      ASSERT_EQ(ends, EndsByExpression(shape, text)) << shape.Expression() << "\n" << text;
    }
  }
}

TEST(WordScannerTest, TrailingBlanksAreCutIntoPowersOfTwo) {
  const WordScanner scanner({.style = Style::kLlama3, .chunks_spaces = true});
  std::vector<size_t> ends;
  scanner.Cut(std::string(1000, ' '), 0, ends);
  EXPECT_EQ(ends, (std::vector<size_t>{512, 768, 896, 960, 992, 1000}));
}

TEST(WordScannerTest, EndsCountFromTheOffset) {
  std::vector<size_t> ends;
  WordScanner({.style = Style::kGpt2}).Cut("a b", 100, ends);
  EXPECT_EQ(ends, (std::vector<size_t>{101, 103}));
}

}  // namespace
}  // namespace kvgate::tokenizer::split
