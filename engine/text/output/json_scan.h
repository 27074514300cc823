// Scans one JSON value byte by byte, as models write it: checks that brackets and strings are
// balanced, but not the syntax between them. Also reads and writes single JSON values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvgate::output {

enum class ScanStatus : uint8_t {
  kMore,
  kDone,        // this byte was the last of the value
  kDoneBefore,  // the value ended before this byte, as numbers and words do
  kFailed,
};

class JsonScan {
 public:
  // Appends the byte to the value; control characters in strings are escaped.
  ScanStatus Step(char byte, std::string& value);
  bool begun() const { return begun_; }

 private:
  ScanStatus StepInString(char byte, std::string& value);

  std::string stack_;  // closing brackets still expected
  bool begun_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
  bool scalar_ = false;
};

inline bool IsBlank(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}
std::string_view TrimBlanks(std::string_view text);

// Decodes a JSON string; `json` includes the quotes. Returns nothing if it is not a string.
std::optional<std::string> DecodeJsonString(std::string_view json);
// The result includes the quotes.
std::string EncodeJsonString(std::string_view text);
// Returns true if the text is exactly one JSON value, with blanks around it allowed.
bool IsJson(std::string_view text);

}  // namespace kvgate::output
