// Parses calls that a model wrote as Python.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/text/output/json_scan.h"
#include "engine/text/output/reply_parser.h"

namespace kvgate::output {

// Converts a literal to JSON: strings in any quotes, numbers, True, None, lists, tuples, dicts.
// Returns nothing if the text is not a literal.
std::optional<std::string> PythonToJson(std::string_view literal);

// Parses a call's arguments byte by byte, starting after the opening parenthesis: "KEY=VALUE, …)".
// A value that is not a literal is taken as a string.
class PythonArguments {
 public:
  // Appends to a JSON object whatever has become certain. Returns kDone with the closing
  // parenthesis.
  ScanStatus Step(char byte, std::string& json);

 private:
  enum class State : uint8_t { kKey, kValue };

  ScanStatus StepKey(char byte, std::string& json);
  void StepText(char byte);
  void TakeValue(std::string& json);

  State state_ = State::kKey;
  std::string key_;
  std::string value_;
  size_t depth_ = 0;  // nesting of brackets in the value
  char quote_ = 0;    // of the current string in the value; 0: none
  bool triple_ = false;
  bool escaped_ = false;
  size_t num_quotes_ = 0;    // consecutive quotes at the end of a triple-quoted string
  size_t text_begin_ = 0;    // start of the current string, after its quote
  bool may_triple_ = false;  // an empty string has just ended
  bool any_ = false;
};

struct PythonCall {
  std::string name;
  std::string arguments;  // a JSON object
};

// Parses NAME.call(KEY=VALUE, …). Other code becomes a call of the tool that runs code, with the
// code as its only argument, if there is such a tool; otherwise nothing is returned.
std::optional<PythonCall> ReadPythonCall(std::string_view code, std::span<const ToolShape> tools);

}  // namespace kvgate::output
