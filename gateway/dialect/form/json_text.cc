#include "gateway/dialect/form/json_text.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "engine/text/output/json_scan.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::dialect::form {
namespace {

using jinja::value::Data;

constexpr size_t kDepthMax = 64;

// Returns whole numbers as integers, and the digits of others unchanged, because printing would
// respell them.
Data NumberOf(std::string_view digits) {
  int64_t whole = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
  const bool fits = problem == std::errc() && end == digits.data() + digits.size();
  if (fits && std::to_string(whole) == digits) return whole;
  return Data::BigInteger{std::string(digits)};
}

// Converts a text that is known to be valid JSON.
class Reader {
 public:
  explicit Reader(std::string_view json) : rest_(json) {}

  // Returns false if the value is nested too deep.
  bool Value(Data& value, size_t depth) {
    Skip();
    if (depth > kDepthMax) return false;
    switch (rest_.front()) {
      case '{':
        return Object(value, depth);
      case '[':
        return List(value, depth);
      case '"':
        value = Text();
        return true;
      default:
        value = Word();
        return true;
    }
  }

 private:
  void Skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  bool Take(char byte) {
    Skip();
    if (!rest_.starts_with(byte)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string Text() {
    Skip();
    size_t end = 1;
    while (rest_[end] != '"') end += rest_[end] == '\\' ? 2 : 1;
    std::string text = output::DecodeJsonString(rest_.substr(0, end + 1)).value_or("");
    rest_.remove_prefix(end + 1);
    return text;
  }

  Data Word() {
    const std::string_view word =
        rest_.substr(0, std::min(rest_.find_first_of(" \t\r\n,]}"), rest_.size()));
    rest_.remove_prefix(word.size());
    if (word == "true") return true;
    if (word == "false") return false;
    return word == "null" ? Data() : NumberOf(word);
  }

  bool List(Data& value, size_t depth) {
    Data::List list;
    Take('[');
    while (!Take(']')) {
      Take(',');
      Data item;
      if (!Value(item, depth + 1)) return false;
      list.push_back(std::move(item));
    }
    value = std::move(list);
    return true;
  }

  bool Object(Data& value, size_t depth) {
    Data::Dict dict;
    Take('{');
    while (!Take('}')) {
      Take(',');
      std::string key = Text();
      Take(':');
      Data item;
      if (!Value(item, depth + 1)) return false;
      dict.emplace_back(std::move(key), std::move(item));
    }
    value = std::move(dict);
    return true;
  }

  std::string_view rest_;
};

bool IsObject(std::string_view json) { return output::TrimBlanks(json).starts_with('{'); }

}  // namespace

bool IsNumberAbove(std::string_view text, int64_t most) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc::result_out_of_range) {  // or so close to 0 that it underflows
    return !text.starts_with('-') && text.find("e-") == text.npos && text.find("E-") == text.npos;
  }
  return read.ec == std::errc() && value > static_cast<double>(most);
}

std::optional<jinja::value::Data> ParseObject(std::string_view text) {
  if (!IsObject(text) || !output::IsJson(text)) return std::nullopt;
  Data value;
  if (!Reader(text).Value(value, 0)) return std::nullopt;
  return value;
}

std::string AsObject(std::string_view text) {
  if (output::TrimBlanks(text).empty()) return "{}";
  const bool is_json = output::IsJson(text);
  if (is_json && IsObject(text)) return std::string(text);
  std::string object = R"({"arguments":)";
  if (is_json) {
    object += text;
  } else {
    AppendJsonString(text, object);
  }
  return object + "}";
}

}  // namespace kvgate::dialect::form
