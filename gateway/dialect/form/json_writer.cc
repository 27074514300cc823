#include "gateway/dialect/form/json_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "base/json_escape.h"
#include "base/utf8.h"

namespace kvgate::dialect::form {
namespace {

template <typename Integer>
void AppendInteger(Integer value, std::string& out) {
  std::array<char, 24> digits;
  const auto made = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), made.ptr);
}

}  // namespace

void AppendJsonString(std::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    // Most text is a run of plain characters, which is appended at once.
    const auto special = std::find_if(text.begin(), text.end(), [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte < 0x20 || byte >= 0x7F || c == '"' || c == '\\';
    });
    out.append(text.begin(), special);
    text.remove_prefix(static_cast<size_t>(special - text.begin()));
    if (text.empty()) break;
    const char c = text.front();
    if (static_cast<unsigned char>(c) >= 0x80) {
      // Each byte that begins no whole character is replaced on its own.
      const Utf8Step step = NextUtf8(text);
      const bool is_valid = step.status == Utf8Status::kValid;
      out += is_valid ? text.substr(0, step.length) : kReplacementCharacter;
      text.remove_prefix(is_valid ? step.length : 1);
      continue;
    }
    AppendJsonEscape(c, JsonShort::kAll, out);
    text.remove_prefix(1);
  }
  out += '"';
}

void JsonWriter::Separate() {
  if (needs_comma_) out_ += ',';
  needs_comma_ = true;
}

JsonWriter& JsonWriter::BeginObject() {
  Separate();
  out_ += '{';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  out_ += '}';
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  Separate();
  out_ += '[';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  out_ += ']';
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  AppendJsonString(key, out_);
  out_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  Separate();
  AppendJsonString(value, out_);
  return *this;
}

JsonWriter& JsonWriter::Integer(int64_t value) {
  Separate();
  AppendInteger(value, out_);
  return *this;
}

JsonWriter& JsonWriter::Unsigned(uint64_t value) {
  Separate();
  AppendInteger(value, out_);
  return *this;
}

JsonWriter& JsonWriter::Number(double value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  fmt::format_to(std::back_inserter(out_), "{:.9g}", value);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ += json;
  return *this;
}

}  // namespace kvgate::dialect::form
