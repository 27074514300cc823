#include "engine/text/output/python_call.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/utf8.h"
#include "engine/text/output/call_body.h"

namespace kvgate::output {
namespace {

constexpr size_t kDepthMax = 64;
constexpr size_t kKeyBytesMax = 256;

// Reads one literal from the front of a text.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : rest_(text) {}

  std::optional<std::string> Whole() {
    std::string json;
    if (!Value(json, 0)) return std::nullopt;
    Skip();
    if (!rest_.empty()) return std::nullopt;
    return json;
  }

 private:
  void Skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  bool Take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  bool Value(std::string& json, size_t depth) {
    Skip();
    if (rest_.empty() || depth > kDepthMax) return false;
    switch (rest_.front()) {
      case '\'':
      case '"':
        return Text(json);
      case '[':
        return Items(']', json, depth);
      case '(':
        return Items(')', json, depth);
      case '{':
        return Dict(json, depth);
      default:
        return Word(json);
    }
  }

  bool Word(std::string& json) {
    constexpr std::pair<std::string_view, std::string_view> kWords[] = {
        {"True", "true"}, {"False", "false"}, {"None", "null"},
        {"true", "true"}, {"false", "false"}, {"null", "null"}};
    const size_t size = std::min(rest_.find_first_of(" \t\r\n,]}):"), rest_.size());
    std::string word(rest_.substr(0, size));
    rest_.remove_prefix(size);
    for (const auto& [python, meant] : kWords) {
      if (word != python) continue;
      json += meant;
      return true;
    }
    std::erase(word, '_');
    if (word.starts_with('+')) word.erase(0, 1);
    if (word.ends_with('.')) word += '0';
    if (word.starts_with('.')) word.insert(0, "0");
    if (word.empty() || !(std::isdigit(static_cast<unsigned char>(word.back())) != 0) ||
        !IsJson(word)) {
      return false;
    }
    json += word;
    return true;
  }

  bool Items(char close, std::string& json, size_t depth) {
    rest_.remove_prefix(1);
    json += '[';
    for (bool first = true;; first = false) {
      Skip();
      if (Take(std::string_view(&close, 1))) break;
      if (!first && !Take(",")) return false;
      Skip();
      if (Take(std::string_view(&close, 1))) break;  // trailing comma
      if (!first) json += ", ";
      if (!Value(json, depth + 1)) return false;
    }
    json += ']';
    return true;
  }

  bool Dict(std::string& json, size_t depth) {
    rest_.remove_prefix(1);
    json += '{';
    for (bool first = true;; first = false) {
      Skip();
      if (Take("}")) break;
      if (!first && !Take(",")) return false;
      Skip();
      if (Take("}")) break;
      if (!first) json += ", ";
      std::string key;
      if (!Value(key, depth + 1)) return false;
      json += key.starts_with('"') ? key : EncodeJsonString(key);
      Skip();
      if (!Take(":")) return false;
      json += ": ";
      if (!Value(json, depth + 1)) return false;
    }
    json += '}';
    return true;
  }

  // Adjacent string literals are concatenated.
  bool Text(std::string& json) {
    std::string text;
    do {
      const std::string quote(rest_.substr(0, 1));
      const std::string triple = quote + quote + quote;
      const std::string& end = rest_.starts_with(triple) ? triple : quote;
      rest_.remove_prefix(end.size());
      while (!Take(end)) {
        if (rest_.empty() || !Character(text)) return false;
      }
      Skip();
    } while (rest_.starts_with('"') || rest_.starts_with('\''));
    json += EncodeJsonString(text);
    return true;
  }

  bool Character(std::string& text) {
    const char first = rest_.front();
    rest_.remove_prefix(1);
    if (first != '\\') {
      text += first;
      return true;
    }
    if (rest_.empty()) return false;
    const char kind = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kKinds = "ntrbfav0\\'\"/";
    constexpr std::string_view kMeant("\n\t\r\b\f\a\v\0\\'\"/", 12);
    if (const size_t index = kKinds.find(kind); index != std::string_view::npos) {
      text += kMeant[index];
    } else if (kind == 'x' || kind == 'u' || kind == 'U') {
      return Code(kind == 'x' ? 2 : kind == 'u' ? 4 : 8, text);
    } else if (kind != '\n') {  // Python keeps unknown escapes
      text += '\\';
      text += kind;
    }
    return true;
  }

  std::optional<uint32_t> Hex(size_t digits) {
    uint32_t code = 0;
    if (rest_.size() < digits) return std::nullopt;
    const auto [end, problem] = std::from_chars(rest_.data(), rest_.data() + digits, code, 16);
    if (problem != std::errc() || end != rest_.data() + digits) return std::nullopt;
    rest_.remove_prefix(digits);
    return code;
  }

  bool Code(size_t digits, std::string& text) {
    std::optional<uint32_t> code = Hex(digits);
    if (!code) return false;
    if (*code >= 0xD800 && *code < 0xDC00 && Take("\\u")) {
      const std::optional<uint32_t> low = Hex(4);
      if (!low || *low < 0xDC00 || *low >= 0xE000) return false;
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
    }
    AppendUtf8(*code, text);
    return true;
  }

  std::string_view rest_;
};

}  // namespace

std::optional<std::string> PythonToJson(std::string_view literal) {
  return LiteralReader(literal).Whole();
}

ScanStatus PythonArguments::Step(char byte, std::string& json) {
  if (state_ == State::kKey) return StepKey(byte, json);
  if (quote_ != 0) {
    StepText(byte);
    return ScanStatus::kMore;
  }
  if (depth_ == 0 && (byte == ',' || byte == ')')) {
    TakeValue(json);
    if (byte == ')') json += '}';
    return byte == ')' ? ScanStatus::kDone : ScanStatus::kMore;
  }
  value_ += byte;
  if (byte == '"' || byte == '\'') {
    triple_ = may_triple_ && value_.size() >= 3 && value_[value_.size() - 2] == byte;
    quote_ = byte;
    text_begin_ = value_.size();
    num_quotes_ = 0;
  } else if (byte == '(' || byte == '[' || byte == '{') {
    ++depth_;
  } else if (byte == ')' || byte == ']' || byte == '}') {
    if (depth_ == 0) return ScanStatus::kFailed;
    --depth_;
  }
  may_triple_ = false;
  return ScanStatus::kMore;
}

void PythonArguments::StepText(char byte) {
  value_ += byte;
  if (escaped_) {
    escaped_ = false;
    num_quotes_ = 0;
  } else if (byte == '\\') {
    escaped_ = true;
  } else if (byte != quote_) {
    num_quotes_ = 0;
  } else if (!triple_ || ++num_quotes_ == 3) {
    may_triple_ = !triple_ && value_.size() - 1 == text_begin_;
    quote_ = 0;
  }
}

ScanStatus PythonArguments::StepKey(char byte, std::string& json) {
  if (byte == ')' && key_.empty()) {
    json += any_ ? "}" : "{}";
    return ScanStatus::kDone;
  }
  if (byte == '=') {
    state_ = State::kValue;
    return key_.empty() ? ScanStatus::kFailed : ScanStatus::kMore;
  }
  if (IsBlank(byte) || (byte == ',' && key_.empty())) return ScanStatus::kMore;
  if (!IsNameByte(byte) || key_.size() >= kKeyBytesMax) return ScanStatus::kFailed;
  key_ += byte;
  return ScanStatus::kMore;
}

void PythonArguments::TakeValue(std::string& json) {
  json += std::exchange(any_, true) ? ", " : "{";
  json.append(EncodeJsonString(std::exchange(key_, {}))).append(": ");
  const std::string value = std::exchange(value_, {});
  json += PythonToJson(value).value_or(EncodeJsonString(TrimBlanks(value)));
  state_ = State::kKey;
  may_triple_ = false;
}

std::optional<PythonCall> ReadPythonCall(std::string_view code, std::span<const ToolShape> tools) {
  constexpr std::string_view kCall = ".call(";
  const std::string_view text = TrimBlanks(code);
  const size_t dot = text.find(kCall);
  const std::string_view name = text.substr(0, std::min(dot, text.size()));
  if (dot != std::string_view::npos && !name.empty() &&
      std::all_of(name.begin(), name.end(), IsNameByte)) {
    PythonCall call{.name = std::string(name), .arguments = {}};
    PythonArguments arguments;
    for (size_t i = dot + kCall.size(); i < text.size(); ++i) {
      const ScanStatus status = arguments.Step(text[i], call.arguments);
      if (status == ScanStatus::kMore) continue;
      if (status == ScanStatus::kDone && i + 1 == text.size()) return call;
      break;
    }
  }
  constexpr std::array<std::string_view, 3> kRunners = {"python", "code_interpreter", "ipython"};
  for (const ToolShape& tool : tools) {
    if (std::find(kRunners.begin(), kRunners.end(), tool.name) == kRunners.end()) continue;
    return PythonCall{.name = tool.name, .arguments = "{\"code\": " + EncodeJsonString(code) + "}"};
  }
  return std::nullopt;
}

}  // namespace kvgate::output
