// JsonWriter: appends JSON to a string, in the order written. Keys and nesting are the caller's
// matter; escaping, commas and valid UTF-8 are this class's: whatever bytes go in, the output is
// valid JSON in valid UTF-8 (bad bytes become U+FFFD).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate::protocol {

// Whether the bytes are well-formed UTF-8 (no surrogates, no overlong forms).
bool IsValidUtf8(std::string_view bytes);
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
  // Six significant digits at least; NaN and infinities, which JSON lacks, become null.
  JsonWriter& Number(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  // Bytes that are JSON already.
  JsonWriter& Raw(std::string_view json);

 private:
  void Separate();

  std::string& out_;
  bool needs_comma_ = false;
};

}  // namespace kvgate::protocol
