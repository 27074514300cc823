// Calls that a model wrote as Python.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/reply/json_scan.h"
#include "engine/text/output/reply_parser.h"

namespace kvgate::reply {

// A literal as JSON: texts in any quotes, numbers, True, None, lists, tuples, dicts. Nothing where
// it is none.
std::optional<std::string> PythonToJson(std::string_view literal);

// What stands behind the parenthesis that opens a call's arguments, a byte at a time: "KEY=VALUE,
// …)". A value that is no literal is a text.
class PythonArguments {
 public:
  // Appends to a JSON object what has become certain. kDone: with the parenthesis that closes.
  ScanStatus Step(char byte, std::string& json);

 private:
  enum class State : uint8_t { kKey, kValue };

  ScanStatus StepKey(char byte, std::string& json);
  void StepText(char byte);
  void TakeValue(std::string& json);

  State state_ = State::kKey;
  std::string key_;
  std::string value_;
  size_t depth_ = 0;  // of brackets in the value
  char quote_ = 0;    // of the text under way in it; 0: none
  bool triple_ = false;
  bool escaped_ = false;
  size_t num_quotes_ = 0;    // in a row at the end of a text in three quotes
  size_t text_begin_ = 0;    // of the text under way, behind its quote
  bool may_triple_ = false;  // an empty text has just ended
  bool any_ = false;
};

struct PythonCall {
  std::string name;
  std::string arguments;  // a JSON object
};

// NAME.call(KEY=VALUE, …). Other code is a call of the tool that runs code, with the code as its
// one argument, where there is such a tool; else nothing.
std::optional<PythonCall> ReadPythonCall(std::string_view code, std::span<const ToolShape> tools);

}  // namespace kvgate::reply
