// Calls that a model wrote as Python, all of the text at once.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/reply/reply_parser.h"

namespace kvgate::reply {

struct PythonCall {
  std::string name;
  std::string arguments;  // a JSON object
};

// NAME.call(KEY=VALUE, …), values as literals. Other code is a call of the tool that runs code,
// with the code as its one argument, where there is such a tool; else nothing.
std::optional<PythonCall> ReadPythonCall(std::string_view code, std::span<const ToolShape> tools);

}  // namespace kvgate::reply
