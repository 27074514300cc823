// JsonWriter appends JSON to a string in the order written. The caller is responsible for keys and
// nesting, this class for escaping, commas and encoding: the output is always valid JSON in valid
// UTF-8, and bad input bytes become U+FFFD.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate::dialect::form {

// Appends `text` as a JSON string, quotes included.
void AppendJsonString(std::string_view text, std::string& out);

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view value);
  JsonWriter& Integer(int64_t value);
  JsonWriter& Unsigned(uint64_t value);
  // Writes at least six significant digits. NaN and infinities, which JSON lacks, become null.
  JsonWriter& Number(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  // Appends bytes that are JSON already.
  JsonWriter& Raw(std::string_view json);

 private:
  void Separate();

  std::string& out_;
  bool needs_comma_ = false;
};

}  // namespace kvgate::dialect::form
