#include "gateway/prompt/parse/json_scanner.h"

#include <array>
#include <numeric>

#include "base/json_escape.h"

namespace kvgate::prompt::parse {
namespace {

// Bytes outside of strings at which SkipNested must stop.
constexpr std::array<bool, 256> kStructural = [] {
  std::array<bool, 256> table{};
  for (const char c : {'"', '{', '}', '[', ']'}) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

}  // namespace

bool JsonScanner::SkipString() {
  // Only quotes are searched for; a quote behind an odd run of backslashes does not end the string.
  const size_t begin = at_ + 1;
  size_t from = begin;
  while (from < text_.size()) {
    const void* found = std::memchr(text_.data() + from, '"', text_.size() - from);
    if (found == nullptr) return false;
    const size_t quote = static_cast<const char*>(found) - text_.data();
    size_t slashes = 0;
    while (quote - slashes > begin && text_[quote - slashes - 1] == '\\') ++slashes;
    from = quote + 1;
    if (slashes % 2 == 0) {
      at_ = from;
      return true;
    }
  }
  return false;
}

bool JsonScanner::SkipNested() {
  size_t depth = 0;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (!kStructural[static_cast<unsigned char>(c)]) {
      ++at_;
    } else if (c == '"') {
      if (!SkipString()) return false;
    } else {
      depth += c == '{' || c == '[' ? 1 : -1;
      ++at_;
      if (depth == 0) return true;
    }
  }
  return false;
}

std::optional<Span> JsonScanner::String() {
  if (at_ >= text_.size() || text_[at_] != '"') return std::nullopt;
  const uint32_t begin = at();
  if (!SkipString()) return std::nullopt;
  return Span{begin, at()};
}

std::optional<Span> JsonScanner::Value() {
  const char first = Peek();
  const uint32_t begin = at();
  if (first == '"') return String();
  if (first == '{' || first == '[') {
    if (!SkipNested()) return std::nullopt;
    return Span{begin, at()};
  }
  while (at_ < text_.size() && !IsSpace(text_[at_]) && text_[at_] != ',' && text_[at_] != '}' &&
         text_[at_] != ']') {
    ++at_;
  }
  if (at() == begin) return std::nullopt;
  return Span{begin, at()};
}

bool DecodeString(std::string_view json, std::string& text, std::vector<uint32_t>* offsets) {
  if (json.size() < 2 || json.front() != '"' || json.back() != '"') return false;
  const std::string_view inside = json.substr(0, json.size() - 1);
  const size_t text_begin = text.size();
  text.reserve(text_begin + json.size());
  if (offsets != nullptr) offsets->reserve(json.size());
  size_t at = 1;
  while (at < inside.size()) {
    size_t run = at;
    while (run < inside.size() && inside[run] != '\\' && inside[run] != '"' &&
           static_cast<unsigned char>(inside[run]) >= 0x20) {
      ++run;
    }
    text.append(inside, at, run - at);
    if (offsets != nullptr) {
      const size_t num_known = offsets->size();
      offsets->resize(num_known + run - at);
      std::iota(offsets->begin() + static_cast<std::ptrdiff_t>(num_known), offsets->end(),
                static_cast<uint32_t>(at));
    }
    at = run;
    if (at == inside.size()) break;
    if (inside[at] != '\\') return false;
    const size_t size = DecodeJsonEscape(inside, at, LoneSurrogate::kKept, text);
    if (size == 0) return false;
    if (offsets != nullptr) offsets->resize(text.size() - text_begin, static_cast<uint32_t>(at));
    at += size;
  }
  if (offsets != nullptr) offsets->push_back(static_cast<uint32_t>(json.size() - 1));
  return true;
}

std::string TextOrJson(std::string_view value) {
  std::string text;
  if (!value.empty() && value.front() == '"' && DecodeString(value, text)) return text;
  return std::string(value);
}

bool NameIs(std::string_view raw, std::string_view key) {
  if (raw == key) return true;
  if (raw.find('\\') == std::string_view::npos) return false;
  std::string text;
  return DecodeString("\"" + std::string(raw) + "\"", text) && text == key;
}

Span MemberSpan(std::string_view text, const JsonScanner::Name& name, uint32_t value_end,
                bool first) {
  if (!first && name.comma) return {*name.comma, value_end};
  JsonScanner behind(text, value_end);
  const bool more = behind.Take(',');
  behind.SkipSpace();
  return {name.span.begin - 1, more ? behind.at() : value_end};
}

}  // namespace kvgate::prompt::parse
