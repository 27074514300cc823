#include "engine/reply/python_call.h"

#include <algorithm>
#include <array>

#include "engine/reply/call_body.h"
#include "engine/reply/json_scan.h"

namespace kvgate::reply {
namespace {

// A name at the front, taken away.
std::string_view TakeName(std::string_view& rest) {
  rest = rest.substr(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
  const auto* const end = std::find_if(rest.begin(), rest.end(), [](char byte) {
    return !IsNameByte(byte) || byte == '.' || byte == ':' || byte == '/' || byte == '-';
  });
  const std::string_view name = rest.substr(0, static_cast<size_t>(end - rest.begin()));
  rest.remove_prefix(name.size());
  return name;
}

bool Take(std::string_view word, std::string_view& rest) {
  rest = rest.substr(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
  if (!rest.starts_with(word)) return false;
  rest.remove_prefix(word.size());
  return true;
}

// A quoted text at the front, as JSON; the quote has been taken.
std::optional<std::string> TakeText(char quote, std::string_view& rest) {
  std::string text;
  for (size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == quote) {
      rest.remove_prefix(i + 1);
      return EncodeJsonString(text);
    }
    if (rest[i] != '\\' || i + 1 == rest.size()) {
      text += rest[i];
      continue;
    }
    const char kind = rest[++i];
    text += kind == 'n' ? '\n' : kind == 't' ? '\t' : kind == 'r' ? '\r' : kind;
  }
  return std::nullopt;
}

// A literal at the front, as JSON.
std::optional<std::string> TakeValue(std::string_view& rest) {
  for (const char quote : {'"', '\''}) {
    if (Take(std::string_view(&quote, 1), rest)) return TakeText(quote, rest);
  }
  JsonScan scan;
  std::string json;
  size_t size = 0;
  ScanStatus status = ScanStatus::kMore;
  while (size < rest.size() && status == ScanStatus::kMore && rest[size] != ')') {
    status = scan.Step(rest[size], json);
    size += status == ScanStatus::kDoneBefore ? 0 : 1;
  }
  if (status == ScanStatus::kFailed) return std::nullopt;
  rest.remove_prefix(size);
  json = ToJsonValue({.tool = "", .key = "", .value = json}, {});
  return json;
}

std::optional<PythonCall> ReadCall(std::string_view rest) {
  PythonCall call{.name = std::string(TakeName(rest)), .arguments = "{"};
  if (call.name.empty() || !Take(".call(", rest)) return std::nullopt;
  while (!Take(")", rest)) {
    if (call.arguments.size() > 1 && !Take(",", rest)) return std::nullopt;
    const std::string_view key = TakeName(rest);
    if (key.empty() || !Take("=", rest)) return std::nullopt;
    const std::optional<std::string> value = TakeValue(rest);
    if (!value) return std::nullopt;
    if (call.arguments.size() > 1) call.arguments += ", ";
    call.arguments.append(EncodeJsonString(key)).append(": ").append(*value);
  }
  call.arguments += '}';
  if (!TrimBlanks(rest).empty()) return std::nullopt;
  return call;
}

}  // namespace

std::optional<PythonCall> ReadPythonCall(std::string_view code, std::span<const ToolShape> tools) {
  if (auto call = ReadCall(code); call) return call;
  constexpr std::array<std::string_view, 3> kRunners = {"python", "code_interpreter", "ipython"};
  for (const ToolShape& tool : tools) {
    if (std::find(kRunners.begin(), kRunners.end(), tool.name) == kRunners.end()) continue;
    return PythonCall{.name = tool.name, .arguments = "{\"code\": " + EncodeJsonString(code) + "}"};
  }
  return std::nullopt;
}

}  // namespace kvgate::reply
