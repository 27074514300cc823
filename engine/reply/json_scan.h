// One JSON value, a byte at a time, as models write it: nesting is checked, what stands between is
// not. And the little of JSON that is needed to read and write single values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvgate::reply {

enum class ScanStatus : uint8_t {
  kMore,
  kDone,        // this byte was the value's last
  kDoneBefore,  // the byte before was: a number or a word has no end of its own
  kFailed,
};

class JsonScan {
 public:
  // Appends what the byte adds to the value: mostly itself; control characters in strings escaped.
  ScanStatus Step(char byte, std::string& value);
  bool begun() const { return begun_; }

 private:
  ScanStatus StepInString(char byte, std::string& value);

  std::string stack_;  // of closers to come
  bool begun_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
  bool scalar_ = false;
};

inline bool IsBlank(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}
std::string_view TrimBlanks(std::string_view text);

// The text of a JSON string, quotes included in `json`; nothing where it is none.
std::optional<std::string> DecodeJsonString(std::string_view json);
// Quotes included.
std::string EncodeJsonString(std::string_view text);
void AppendUtf8(uint32_t code, std::string& out);
// Whether it is one JSON value, all of it, with blanks around at most.
bool IsJson(std::string_view text);

}  // namespace kvgate::reply
