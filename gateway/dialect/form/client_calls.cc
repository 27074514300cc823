#include "gateway/dialect/form/client_calls.h"

#include <algorithm>

#include "engine/text/output/json_scan.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::dialect::form {
namespace {

constexpr std::string_view kSeparator = "__";
constexpr std::string_view kHead = R"({"input":")";
constexpr size_t kUnicodeEscapeBytes = 6;                  // \u0000
constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // for half a surrogate pair

// Returns true if an escape is the first half of a surrogate pair.
bool IsLead(std::string_view escape) {
  const auto lower = [&](size_t at) { return static_cast<char>(escape[at] | 0x20); };
  return escape.size() >= 4 && lower(2) == 'd' &&
         (escape[3] == '8' || escape[3] == '9' || lower(3) == 'a' || lower(3) == 'b');
}

// Decodes a JSON string escape; an invalid one stays as it is.
std::string Unescape(std::string_view escape) {
  const auto text = output::DecodeJsonString("\"" + std::string(escape) + "\"");
  return text.value_or(std::string(escape));
}

}  // namespace

std::string FlatName(std::string_view space, std::string_view name) {
  if (space.empty()) return std::string(name);
  return std::string(space).append(kSeparator).append(name);
}

std::string InputArguments(std::string_view input) {
  std::string arguments = R"({"input": )";
  AppendJsonString(input, arguments);
  return arguments + "}";
}

void InputReader::Push(std::string_view arguments, std::string& input) {
  for (const char byte : arguments) Step(byte, input);
}

void InputReader::Step(char byte, std::string& input) {
  switch (state_) {
    case State::kHead:
      return StepHead(byte, input);
    case State::kEscape:
      return StepEscape(byte, input);
    case State::kText:
      if (byte == '"') {
        state_ = State::kEnd;
      } else if (byte == '\\') {
        pending_ = byte;
        state_ = State::kEscape;
      } else {
        input += byte;
      }
      return;
    case State::kRaw:
      input += byte;
      return;
    case State::kEnd:
      return;
  }
}

void InputReader::StepHead(char byte, std::string& input) {
  pending_ += byte;
  const bool inside_name = num_matched_ > 1 && num_matched_ < 8;
  if (output::IsBlank(byte) && !inside_name) return;
  if (byte == kHead[num_matched_]) {
    if (++num_matched_ == kHead.size()) state_ = State::kText;
  } else if (num_matched_ == 1 && byte == '}') {
    state_ = State::kEnd;
  } else {
    input += pending_;
    state_ = State::kRaw;
  }
}

void InputReader::StepEscape(char byte, std::string& input) {
  pending_ += byte;
  const size_t size = pending_.size();
  const bool unicode = pending_[1] == 'u';
  const bool leads = unicode && size >= kUnicodeEscapeBytes && IsLead(pending_);
  const bool breaks_off = leads && ((size == kUnicodeEscapeBytes + 1 && byte != '\\') ||
                                    (size == kUnicodeEscapeBytes + 2 && byte != 'u'));
  if (breaks_off) {
    const std::string behind = pending_.substr(kUnicodeEscapeBytes);
    input += kReplacement;
    state_ = State::kText;
    for (const char again : behind) Step(again, input);
    return;
  }
  const size_t wanted = !unicode ? 2 : leads ? 2 * kUnicodeEscapeBytes : kUnicodeEscapeBytes;
  if (size < wanted) return;
  input += Unescape(pending_);
  state_ = State::kText;
}

std::string InputOf(std::string_view arguments) {
  std::string input;
  InputReader().Push(arguments, input);
  return input;
}

CallNamer::CallNamer(std::span<const Tool> tools) {
  for (const Tool& tool : tools) {
    if (!tool.is_custom && tool.space.empty()) continue;
    names_.push_back({.flat = tool.name, .space = tool.space, .is_custom = tool.is_custom});
  }
}

void CallNamer::Apply(DeltaEvent& event) {
  if (event.kind == DeltaKind::kCall) {
    const auto name = std::find_if(names_.begin(), names_.end(),
                                   [&](const Name& known) { return known.flat == event.text; });
    is_custom_ = name != names_.end() && name->is_custom;
    input_ = InputReader();
    event.is_custom = is_custom_;
    if (name == names_.end() || name->space.empty()) return;
    event.space = name->space;
    event.text.erase(0, FlatName(name->space, "").size());
  } else if (event.kind == DeltaKind::kArguments && is_custom_) {
    std::string input;
    input_.Push(event.text, input);
    event.text = std::move(input);
    event.is_custom = true;
  }
}

}  // namespace kvgate::dialect::form
