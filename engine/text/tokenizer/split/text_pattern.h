// TextPattern: what a tokenizer.json writes as {"String": ...} or {"Regex": ...}: finds its matches
// in text. Immutable; thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kvgate/result.h>

#include "engine/tokenizer/json_node.h"
#include "engine/tokenizer/regex.h"
#include "engine/text/tokenizer/split/word_scanner.h"

namespace kvgate::tokenizer {

// Bytes [begin, end) of a text, and whether they match.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool is_match = false;
};

class TextPattern {
 public:
  static Result<TextPattern> FromJson(const JsonNode& node);
  // Words of one of the shapes that our scanner knows.
  static TextPattern Words(const WordShape& shape);

  // Spans that cover `text` without gap: matches and what lies between them. REQUIRES: valid UTF-8.
  std::vector<Span> Find(std::string_view text) const;
  std::string Replace(std::string_view text, std::string_view content) const;

 private:
  std::string literal_;
  std::shared_ptr<const Regex> regex_;  // shared, so that a pattern can be copied
  std::optional<WordScanner> scanner_;  // the same expression by hand
};

}  // namespace kvgate::tokenizer
