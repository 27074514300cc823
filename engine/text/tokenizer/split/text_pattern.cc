#include "engine/text/tokenizer/split/text_pattern.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace kvgate::tokenizer::split {

using unicode::Regex;

namespace {

// Expressions that WordScanner implements, spelled as in the files of popular models.
const WordShape* FindShape(std::string_view expression) {
  using Style = WordShape::Style;
  static const std::pair<std::string_view, WordShape> shapes[] = {
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
       R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {.style = Style::kLlama3, .digits_max = 3}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
       R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {.style = Style::kLlama3, .digits_max = 1}},
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
       {.style = Style::kGpt2}}};
  for (const auto& [known, shape] : shapes) {
    if (known == expression) return &shape;
  }
  return nullptr;
}

}  // namespace

Result<TextPattern> TextPattern::FromJson(const JsonNode& node) {
  TextPattern pattern;
  if (const JsonNode literal = node.At("String"); !literal.is_null()) {
    KVGATE_TRY(pattern.literal_, literal.String());
    return pattern;
  }
  const JsonNode expression = node.At("Regex");
  if (expression.is_null()) return node.Bad("is neither {\"String\": ...} nor {\"Regex\": ...}");
  KVGATE_TRY(const std::string text, expression.String());
  if (const WordShape* shape = FindShape(text)) return Words(*shape);
  Result<Regex> regex = Regex::Compile(text, Regex::Dialect::kOniguruma);
  if (!regex) return expression.Unsupported(regex.error().detail);
  pattern.regex_ = std::make_shared<const Regex>(std::move(*regex));
  return pattern;
}

TextPattern TextPattern::Words(const WordShape& shape) {
  TextPattern pattern;
  pattern.scanner_.emplace(shape);
  return pattern;
}

std::vector<Span> TextPattern::Find(std::string_view text) const {
  std::vector<Span> spans;
  if (scanner_) {
    std::vector<size_t> ends;
    scanner_->Cut(text, 0, ends);
    size_t begin = 0;
    for (const size_t end : ends) spans.push_back({std::exchange(begin, end), end, true});
    return spans;
  }
  const Regex::Matcher matcher;
  size_t begin = 0;
  for (size_t from = 0; from < text.size();) {
    Regex::Match match = {text.size(), text.size()};
    if (regex_) {
      match = matcher.Next(*regex_, text, from);
    } else if (const size_t found = text.find(literal_, from);
               !literal_.empty() && found != std::string_view::npos) {
      match = {found, found + literal_.size()};
    }
    if (match.begin == text.size()) break;
    if (match.begin > begin) spans.push_back({begin, match.begin, false});
    // An empty match also cuts.
    spans.push_back({match.begin, match.end, true});
    begin = match.end;
    from = std::max(match.end, match.begin + 1);
    while (from < text.size() && IsUtf8Continuation(text[from])) ++from;
  }
  if (begin < text.size()) spans.push_back({begin, text.size(), false});
  return spans;
}

std::string TextPattern::Replace(std::string_view text, std::string_view content) const {
  std::string out;
  out.reserve(text.size());
  for (const Span& span : Find(text)) {
    out.append(span.is_match ? content : text.substr(span.begin, span.end - span.begin));
  }
  return out;
}

}  // namespace kvgate::tokenizer::split
