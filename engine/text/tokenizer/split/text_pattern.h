// TextPattern: finds the matches of a tokenizer.json's {"String": ...} or {"Regex": ...} in text.
// Immutable; thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/text/tokenizer/split/json_node.h"
#include "engine/text/tokenizer/split/word_scanner.h"
#include "engine/text/tokenizer/unicode/regex.h"

namespace kvgate::tokenizer::split {

// Bytes [begin, end) of a text, either a match or the text between matches.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool is_match = false;
};

class TextPattern {
 public:
  static Result<TextPattern> FromJson(const JsonNode& node);
  // A pattern for the words of a shape that WordScanner implements.
  static TextPattern Words(const WordShape& shape);

  // Returns spans that cover `text` without gaps: matches and the text between. REQUIRES: valid
  // UTF-8.
  std::vector<Span> Find(std::string_view text) const;
  std::string Replace(std::string_view text, std::string_view content) const;

 private:
  std::string literal_;
  std::shared_ptr<const unicode::Regex> regex_;  // shared, so that a pattern can be copied
  std::optional<WordScanner> scanner_;           // hand-written equivalent of the expression
};

}  // namespace kvgate::tokenizer::split
