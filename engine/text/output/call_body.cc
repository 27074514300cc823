#include "engine/text/output/call_body.h"

#include <algorithm>
#include <utility>

#include "engine/text/output/json_scan.h"
#include "engine/text/output/python_call.h"

namespace kvgate::output {
namespace {

constexpr size_t kNameBytesMax = 256;
constexpr std::string_view kFunctionOpen = "<function=";

// Writes a JSON object pair by pair, for formats that are not JSON.
class PairsWriter {
 public:
  std::string Next(std::string_view key, std::string_view json_value) {
    std::string text = std::exchange(empty_, false) ? "{" : ", ";
    return text.append(EncodeJsonString(key)).append(": ").append(json_value);
  }
  std::string End() const { return empty_ ? "{}" : "}"; }

 private:
  bool empty_ = true;
};

// NAME>{…}</function>, or NAME>, then <parameter=KEY>VALUE</parameter> for each argument, then
// </function>.
class FunctionBody final : public CallBody {
 public:
  FunctionBody(CallSink& sink, std::span<const ToolShape> tools) : CallBody(sink), tools_(tools) {}

  BodyStatus Step(char byte) override {
    switch (state_) {
      case State::kName:
        return StepName(byte);
      case State::kStart:
        if (IsBlank(byte)) return BodyStatus::kMore;
        if (byte != '{') return StepMark(byte);
        Begin(name_);
        state_ = State::kJson;
        return StepJson(byte);
      case State::kJson:
        return StepJson(byte);
      case State::kMark:
        return StepMark(byte);
      case State::kKey:
        if (byte != '>') {
          key_ += byte;
          return key_.size() > kNameBytesMax ? BodyStatus::kFailed : BodyStatus::kMore;
        }
        text_.clear();
        state_ = State::kValue;
        return BodyStatus::kMore;
      case State::kValue:
        text_ += byte;
        if (text_.ends_with("</parameter>")) TakeValue();
        return BodyStatus::kMore;
    }
    return BodyStatus::kFailed;
  }

  void End() override {
    if (is_open() && !json_) Add(pairs_.End());
    EndOpen();
  }

 private:
  enum class State : uint8_t { kName, kStart, kJson, kMark, kKey, kValue };

  BodyStatus StepName(char byte) {
    if (byte != '>') {
      name_ += byte;
      return IsNameByte(byte) && name_.size() <= kNameBytesMax ? BodyStatus::kMore
                                                               : BodyStatus::kFailed;
    }
    if (name_.empty()) return BodyStatus::kFailed;
    state_ = State::kStart;
    return BodyStatus::kMore;
  }

  BodyStatus StepJson(char byte) {
    json_ = true;
    std::string text;
    const ScanStatus status = scan_.Step(byte, text);
    if (status == ScanStatus::kFailed) return BodyStatus::kFailed;
    Add(text);
    if (status == ScanStatus::kDone) {
      EndOpen();
      state_ = State::kMark;
    }
    return BodyStatus::kMore;
  }

  BodyStatus StepMark(char byte) {
    if (text_.empty() && IsBlank(byte)) return BodyStatus::kMore;
    if (state_ == State::kStart) {
      text_.clear();
      state_ = State::kMark;
    }
    text_ += byte;
    constexpr std::string_view kParameter = "<parameter=";
    constexpr std::string_view kEnd = "</function>";
    if (text_ == kEnd) {
      if (!json_ && !is_open()) Begin(name_);
      End();
      return BodyStatus::kDone;
    }
    if (!json_ && text_ == kParameter) {
      if (!is_open()) Begin(name_);
      key_.clear();
      state_ = State::kKey;
      return BodyStatus::kMore;
    }
    const bool viable = kEnd.starts_with(text_) || (!json_ && kParameter.starts_with(text_));
    return viable ? BodyStatus::kMore : BodyStatus::kFailed;
  }

  // One line break next to each mark belongs to the mark.
  void TakeValue() {
    std::string_view value = text_;
    value.remove_suffix(std::string_view("</parameter>").size());
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
    Add(pairs_.Next(key_, ToJsonValue({.tool = name_, .key = key_, .value = value}, tools_)));
    text_.clear();
    state_ = State::kMark;
  }

  const std::span<const ToolShape> tools_;
  State state_ = State::kName;
  std::string name_;
  std::string key_;
  std::string text_;  // the current mark or value
  JsonScan scan_;
  bool json_ = false;
  PairsWriter pairs_;
};

// NAME, then <arg_key>KEY</arg_key><arg_value>VALUE</arg_value> for each argument, then
// </tool_call>.
class PairsBody final : public CallBody {
 public:
  PairsBody(CallSink& sink, std::span<const ToolShape> tools) : CallBody(sink), tools_(tools) {}

  BodyStatus Step(char byte) override {
    switch (state_) {
      case State::kName:
        if (IsNameByte(byte) && text_.empty() && name_.size() < kNameBytesMax) {
          name_ += byte;
          return BodyStatus::kMore;
        }
        if (name_.empty()) return BodyStatus::kFailed;
        state_ = State::kMark;
        return StepMark(byte);
      case State::kMark:
        return StepMark(byte);
      case State::kKey:
        text_ += byte;
        if (text_.ends_with(kKeyEnd)) {
          key_ = text_.substr(0, text_.size() - kKeyEnd.size());
          text_.clear();
          state_ = State::kValueMark;
        }
        return BodyStatus::kMore;
      case State::kValueMark:
        if (text_.empty() && IsBlank(byte)) return BodyStatus::kMore;
        text_ += byte;
        if (text_ == kValue) {
          text_.clear();
          state_ = State::kInValue;
        }
        return kValue.starts_with(text_) ? BodyStatus::kMore : BodyStatus::kFailed;
      case State::kInValue:
        text_ += byte;
        if (text_.ends_with(kValueEnd)) TakeValue();
        return BodyStatus::kMore;
    }
    return BodyStatus::kFailed;
  }

  void End() override {
    if (is_open()) Add(pairs_.End());
    EndOpen();
  }

 private:
  enum class State : uint8_t { kName, kMark, kKey, kValueMark, kInValue };
  static constexpr std::string_view kKeyEnd = "</arg_key>";
  static constexpr std::string_view kValue = "<arg_value>";
  static constexpr std::string_view kValueEnd = "</arg_value>";

  BodyStatus StepMark(char byte) {
    if (text_.empty() && IsBlank(byte)) return BodyStatus::kMore;
    text_ += byte;
    constexpr std::string_view kKeyMark = "<arg_key>";
    constexpr std::string_view kClose = "</tool_call>";
    if (text_ == kKeyMark || text_ == kClose) {
      if (!is_open()) Begin(name_);
      const bool done = text_ == kClose;
      text_.clear();
      state_ = State::kKey;
      if (done) End();
      return done ? BodyStatus::kDone : BodyStatus::kMore;
    }
    const bool viable = kKeyMark.starts_with(text_) || kClose.starts_with(text_);
    return viable ? BodyStatus::kMore : BodyStatus::kFailed;
  }

  void TakeValue() {
    const auto value = std::string_view(text_).substr(0, text_.size() - kValueEnd.size());
    Add(pairs_.Next(key_, ToJsonValue({.tool = name_, .key = key_, .value = value}, tools_)));
    text_.clear();
    state_ = State::kMark;
  }

  const std::span<const ToolShape> tools_;
  State state_ = State::kName;
  std::string name_;
  std::string key_;
  std::string text_;  // the current mark, key or value
  PairsWriter pairs_;
};

// Recognises the syntax by its first bytes and delegates to the matching body.
class TaggedBody final : public CallBody {
 public:
  TaggedBody(CallSink& sink, std::span<const ToolShape> tools) : CallBody(sink), tools_(tools) {}

  BodyStatus Step(char byte) override {
    if (inner_) return inner_->Step(byte);
    if (mark_.empty() && IsBlank(byte)) return BodyStatus::kMore;
    if (mark_.empty() && byte != '<') {
      if (byte == '{') {
        inner_ = MakeObjectBody(sink_, tools_, {});
      } else if (byte == '[') {
        inner_ = MakeListBody(sink_, tools_);
      } else {
        inner_ = std::make_unique<PairsBody>(sink_, tools_);
      }
      return inner_->Step(byte);
    }
    mark_ += byte;
    if (mark_ == kFunctionOpen) inner_ = std::make_unique<FunctionBody>(sink_, tools_);
    return kFunctionOpen.starts_with(mark_) ? BodyStatus::kMore : BodyStatus::kFailed;
  }

  void End() override {
    if (inner_) inner_->End();
  }

 private:
  const std::span<const ToolShape> tools_;
  std::string mark_;
  std::unique_ptr<CallBody> inner_;
};

// NAME, a separator, {…}; an id may precede the arguments.
class NamedBody final : public CallBody {
 public:
  NamedBody(const CallForm& form, CallSink& sink, std::span<const ToolShape> tools)
      : CallBody(sink), form_(form), tools_(tools) {}

  BodyStatus Step(char byte) override {
    if (inner_) return inner_->Step(byte);
    switch (state_) {
      case State::kName:
        return StepName(byte);
      case State::kId:
        text_ += byte;
        if (!text_.ends_with(form_.before_arguments)) return BodyStatus::kMore;
        id_ = TrimBlanks(text_.substr(0, text_.size() - form_.before_arguments.size()));
        BeforeArguments();
        return BodyStatus::kMore;
      case State::kLineName:
        if (byte != '\n') {
          name_ += byte;
          return IsNameByte(byte) ? BodyStatus::kMore : BodyStatus::kFailed;
        }
        state_ = State::kBeforeJson;
        return name_.empty() ? BodyStatus::kFailed : BodyStatus::kMore;
      case State::kBeforeJson:
        return StepBeforeJson(byte);
      case State::kJson:
        return StepJson(byte);
    }
    return BodyStatus::kFailed;
  }

  void End() override { inner_ ? inner_->End() : EndOpen(); }

 private:
  enum class State : uint8_t { kName, kId, kLineName, kBeforeJson, kJson };

  BodyStatus StepName(char byte) {
    if (name_.empty() && text_.empty()) {
      if (IsBlank(byte)) return BodyStatus::kMore;
      if (byte == '{') inner_ = MakeObjectBody(sink_, tools_, {});
      if (byte == '[') inner_ = MakeListBody(sink_, tools_);
      if (inner_) return inner_->Step(byte);
    }
    if (text_.empty() && IsNameByte(byte)) {
      name_ += byte;
      return name_.size() > kNameBytesMax ? BodyStatus::kFailed : BodyStatus::kMore;
    }
    if (name_.empty()) return BodyStatus::kFailed;
    if (text_.empty() && IsBlank(byte)) return BodyStatus::kMore;
    text_ += byte;
    if (text_ == form_.before_arguments) {
      BeforeArguments();
    } else if (!form_.before_id.empty() && text_ == form_.before_id) {
      text_.clear();
      state_ = State::kId;
    } else if (text_ == "{") {
      text_.clear();
      state_ = State::kBeforeJson;
      return StepBeforeJson(byte);
    } else if (!form_.before_arguments.starts_with(text_) && !form_.before_id.starts_with(text_)) {
      return BodyStatus::kFailed;
    }
    return BodyStatus::kMore;
  }

  // DeepSeek's older form has "function" as the name, and the real name on the line after it.
  void BeforeArguments() {
    text_.clear();
    const bool on_line = name_ == "function";
    if (on_line) name_.clear();
    state_ = on_line ? State::kLineName : State::kBeforeJson;
  }

  BodyStatus StepBeforeJson(char byte) {
    constexpr std::string_view kFence = "```json";
    if (byte == '{' || byte == '[') {
      if (!TellName()) return BodyStatus::kFailed;
      state_ = State::kJson;
      return StepJson(byte);
    }
    if (IsBlank(byte)) return BodyStatus::kMore;
    text_ += byte;
    if (kFence.starts_with(text_)) return BodyStatus::kMore;
    if (byte != '<') return BodyStatus::kFailed;
    if (!TellName()) return BodyStatus::kFailed;
    EndOpen();  // the call has no arguments; this byte closes it
    return BodyStatus::kDoneBefore;
  }

  BodyStatus StepJson(char byte) {
    std::string text;
    const ScanStatus status = scan_.Step(byte, text);
    if (status == ScanStatus::kFailed) return BodyStatus::kFailed;
    Add(text);
    if (status == ScanStatus::kMore) return BodyStatus::kMore;
    EndOpen();
    return BodyStatus::kDone;
  }

  // Kimi's names are ids: "functions.NAME:INDEX". Returns false if the name is empty.
  bool TellName() {
    constexpr std::string_view kPrefix = "functions.";
    std::string_view name = name_;
    if (name.starts_with(kPrefix)) {
      id_ = name_;
      name.remove_prefix(kPrefix.size());
      name = name.substr(0, name.rfind(':'));
    }
    if (name.empty()) return false;
    Begin(name, id_);
    return true;
  }

  const CallForm& form_;
  const std::span<const ToolShape> tools_;
  State state_ = State::kName;
  std::string name_;
  std::string id_;
  std::string text_;  // the current separator or id
  JsonScan scan_;
  std::unique_ptr<CallBody> inner_;
};

// {"name","parameters"}, or Python code up to the end of the text.
class PythonTagBody final : public CallBody {
 public:
  PythonTagBody(CallSink& sink, std::span<const ToolShape> tools) : CallBody(sink), tools_(tools) {}

  BodyStatus Step(char byte) override {
    if (inner_) return inner_->Step(byte);
    if (code_.empty() && IsBlank(byte)) return BodyStatus::kMore;
    if (code_.empty() && byte == '{') {
      inner_ = MakeObjectBody(sink_, tools_, {});
      return inner_->Step(byte);
    }
    code_ += byte;
    return BodyStatus::kMore;
  }

  void End() override {
    if (inner_) {
      inner_->End();
    } else if (const std::optional<PythonCall> call = ReadPythonCall(code_, tools_); call) {
      Begin(call->name);
      Add(call->arguments);
      EndOpen();
    }
  }

 private:
  const std::span<const ToolShape> tools_;
  std::string code_;
  std::unique_ptr<CallBody> inner_;
};

// [NAME(KEY=VALUE, …), …], or a list of objects.
class PythonListBody final : public CallBody {
 public:
  PythonListBody(CallSink& sink, std::span<const ToolShape> tools)
      : CallBody(sink), tools_(tools) {}

  BodyStatus Step(char byte) override {
    if (inner_) return inner_->Step(byte);
    if (is_open()) return StepArguments(byte);
    if (!opened_) {
      if (IsBlank(byte)) return BodyStatus::kMore;
      opened_ = byte == '[';
      return opened_ ? BodyStatus::kMore : BodyStatus::kFailed;
    }
    if (byte == '(' && !name_.empty()) {
      Begin(std::exchange(name_, {}));
      arguments_ = {};
      ++num_calls_;
      return BodyStatus::kMore;
    }
    if (name_.empty()) {
      if (byte == ']' && num_calls_ > 0) return BodyStatus::kDone;
      if (IsBlank(byte) || (byte == ',' && num_calls_ > 0)) return BodyStatus::kMore;
      if (byte == '{' && num_calls_ == 0) {
        inner_ = MakeListBody(sink_, tools_);
        inner_->Step('[');
        return inner_->Step(byte);
      }
    }
    name_ += byte;
    return IsNameByte(byte) && name_.size() <= kNameBytesMax ? BodyStatus::kMore
                                                             : BodyStatus::kFailed;
  }

  void End() override {
    if (inner_) return inner_->End();
    if (is_open()) Add(has_pairs_ ? "}" : "{}");
    EndOpen();
  }

 private:
  BodyStatus StepArguments(char byte) {
    std::string json;
    const ScanStatus status = arguments_.Step(byte, json);
    if (status == ScanStatus::kFailed) return BodyStatus::kFailed;
    Add(json);
    has_pairs_ = has_pairs_ || !json.empty();
    if (status == ScanStatus::kDone) {
      EndOpen();
      has_pairs_ = false;
    }
    return BodyStatus::kMore;
  }

  const std::span<const ToolShape> tools_;
  bool opened_ = false;
  std::string name_;
  size_t num_calls_ = 0;
  PythonArguments arguments_;
  bool has_pairs_ = false;  // the open call has arguments
  std::unique_ptr<CallBody> inner_;
};

}  // namespace

void CallBody::Begin(std::string_view name, std::string_view id) {
  sink_.BeginCall(name, id);
  open_ = true;
  has_arguments_ = false;
}

void CallBody::Add(std::string_view arguments) {
  if (arguments.empty()) return;
  sink_.AddArguments(arguments);
  has_arguments_ = true;
}

void CallBody::EndOpen() {
  if (!open_) return;
  if (!has_arguments_) sink_.AddArguments("{}");
  sink_.EndCall();
  open_ = false;
}

std::unique_ptr<CallBody> MakeCallBody(const CallForm& form, CallSink& sink,
                                       std::span<const ToolShape> tools) {
  switch (form.syntax) {
    case CallSyntax::kTagged:
      return std::make_unique<TaggedBody>(sink, tools);
    case CallSyntax::kFunction:
      return std::make_unique<FunctionBody>(sink, tools);
    case CallSyntax::kNamed:
      return std::make_unique<NamedBody>(form, sink, tools);
    case CallSyntax::kBare:
      return MakeObjectBody(sink, tools, {.known_tools_only = true});
    case CallSyntax::kPythonTag:
      return std::make_unique<PythonTagBody>(sink, tools);
    case CallSyntax::kPython:
      return std::make_unique<PythonListBody>(sink, tools);
  }
  return nullptr;
}

bool IsNameByte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '_' || byte == '-' || byte == '.' || byte == ':' ||
         byte == '/';
}

std::string ToJsonValue(const PlainValue& value, std::span<const ToolShape> tools) {
  const std::string_view word = TrimBlanks(value.value);
  const auto has = [&](const std::vector<std::string>& keys) {
    return std::find(keys.begin(), keys.end(), value.key) != keys.end();
  };
  for (const ToolShape& tool : tools) {
    if (tool.name != value.tool || !has(tool.text_arguments)) continue;
    const bool is_null = has(tool.nullable_arguments) && (word == "null" || word == "None");
    return is_null ? "null" : EncodeJsonString(value.value);
  }
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None") return "null";
  return IsJson(word) ? std::string(word) : EncodeJsonString(value.value);
}

}  // namespace kvgate::output
