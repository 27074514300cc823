// Parses calls that are JSON objects, alone or in a list.
#include <algorithm>
#include <utility>

#include "engine/text/output/call_body.h"
#include "engine/text/output/json_scan.h"

namespace kvgate::output {
namespace {

enum class Role : uint8_t { kName, kArguments, kId, kOther };

Role RoleOf(std::string_view key) {
  if (key == "name" || key == "tool_name" || key == "function") return Role::kName;
  if (key == "arguments" || key == "parameters" || key == "args" || key == "input") {
    return Role::kArguments;
  }
  if (key == "id" || key == "tool_call_id" || key == "call_id") return Role::kId;
  return Role::kOther;
}

// Normalises complete arguments: null or "" means {}, and some models put the object into a string.
std::string ArgumentsOf(std::string raw) {
  if (raw == "null") return "{}";
  if (std::optional<std::string> text = DecodeJsonString(raw); text) {
    if (TrimBlanks(*text).empty()) return "{}";
    if (IsJson(*text)) return std::move(*text);
  }
  return raw;
}

class ObjectBody final : public CallBody {
 public:
  ObjectBody(CallSink& sink, std::span<const ToolShape> tools, ObjectBodyOptions options)
      : CallBody(sink), tools_(tools), options_(options) {}

  BodyStatus Step(char byte) override {
    switch (state_) {
      case State::kOpen:
        if (IsBlank(byte)) return BodyStatus::kMore;
        if (byte != '{') return BodyStatus::kFailed;
        depth_ = 1;
        state_ = State::kItem;
        return BodyStatus::kMore;
      case State::kItem:
        return StepItem(byte);
      case State::kKey:
        return StepKey(byte);
      case State::kColon:
        if (IsBlank(byte)) return BodyStatus::kMore;
        if (byte != ':') return BodyStatus::kFailed;
        state_ = State::kValue;
        return BodyStatus::kMore;
      case State::kValue:
        if (IsBlank(byte)) return BodyStatus::kMore;
        return BeginValue(byte) ? BodyStatus::kMore : BodyStatus::kFailed;
      case State::kInValue:
        return StepValue(byte);
    }
    return BodyStatus::kFailed;
  }

 private:
  enum class State : uint8_t { kOpen, kItem, kKey, kColon, kValue, kInValue };

  // Tolerates missing commas between members.
  BodyStatus StepItem(char byte) {
    if (IsBlank(byte) || byte == ',') return BodyStatus::kMore;
    if (byte == '"') {
      scan_ = {};
      raw_.clear();
      state_ = State::kKey;
      return StepKey(byte);
    }
    if (byte != '}') return BodyStatus::kFailed;
    if (--depth_ > 0) return BodyStatus::kMore;
    if (!is_open() && !Tell()) return BodyStatus::kFailed;
    EndOpen();
    return BodyStatus::kDone;
  }

  BodyStatus StepKey(char byte) {
    switch (scan_.Step(byte, raw_)) {
      case ScanStatus::kMore:
        return BodyStatus::kMore;
      case ScanStatus::kDone: {
        const std::optional<std::string> key = DecodeJsonString(raw_);
        if (!key) return BodyStatus::kFailed;
        role_ = RoleOf(*key);
        is_function_ = *key == "function";
        state_ = State::kColon;
        return BodyStatus::kMore;
      }
      default:
        return BodyStatus::kFailed;
    }
  }

  bool BeginValue(char byte) {
    if (is_function_ && byte == '{' && depth_ == 1) {  // {"type":"function","function":{…}}
      depth_ = 2;
      state_ = State::kItem;
      return true;
    }
    scan_ = {};
    raw_.clear();
    streams_ = role_ == Role::kArguments && !told_arguments_ && !name_.empty() &&
               (byte == '{' || byte == '[');
    if (streams_ && !Tell()) return false;
    state_ = State::kInValue;
    return StepValue(byte) != BodyStatus::kFailed;
  }

  BodyStatus StepValue(char byte) {
    const ScanStatus status = scan_.Step(byte, raw_);
    if (status == ScanStatus::kFailed) return BodyStatus::kFailed;
    if (streams_) {
      Add(raw_);
      raw_.clear();
    }
    if (status == ScanStatus::kMore) return BodyStatus::kMore;
    if (!TakeValue()) return BodyStatus::kFailed;
    state_ = State::kItem;
    return status == ScanStatus::kDone ? BodyStatus::kMore : StepItem(byte);
  }

  bool TakeValue() {
    if (role_ == Role::kName && name_.empty()) {
      std::optional<std::string> name = DecodeJsonString(raw_);
      if (!name || name->empty()) return false;
      name_ = std::move(*name);
      return !arguments_ || Tell();
    }
    if (role_ == Role::kId) id_ = DecodeJsonString(raw_).value_or(raw_);
    if (role_ == Role::kArguments && !streams_ && !arguments_) {
      arguments_ = ArgumentsOf(std::exchange(raw_, {}));
      if (!name_.empty()) return Tell();
    }
    return true;
  }

  bool Tell() {
    if (is_open()) return true;
    const bool known = std::any_of(tools_.begin(), tools_.end(),
                                   [&](const ToolShape& tool) { return tool.name == name_; });
    if (name_.empty() || (options_.known_tools_only && !known)) return false;
    Begin(name_, id_);
    if (arguments_) Add(*arguments_);
    told_arguments_ = streams_ || arguments_.has_value();
    return true;
  }

  const std::span<const ToolShape> tools_;
  const ObjectBodyOptions options_;
  State state_ = State::kOpen;
  int depth_ = 0;
  JsonScan scan_;
  std::string raw_;  // the current key or value
  Role role_ = Role::kOther;
  bool is_function_ = false;
  bool streams_ = false;
  bool told_arguments_ = false;
  std::string name_;
  std::string id_;
  std::optional<std::string> arguments_;  // received before the name, or in a string
};

class ListBody final : public CallBody {
 public:
  ListBody(CallSink& sink, std::span<const ToolShape> tools) : CallBody(sink), tools_(tools) {}

  BodyStatus Step(char byte) override {
    if (item_) {
      const BodyStatus status = item_->Step(byte);
      if (status == BodyStatus::kDone) item_.reset();
      return status == BodyStatus::kFailed ? status : BodyStatus::kMore;
    }
    if (IsBlank(byte) || (byte == ',' && num_items_ > 0)) return BodyStatus::kMore;
    if (!opened_) {
      opened_ = byte == '[';
      return opened_ ? BodyStatus::kMore : BodyStatus::kFailed;
    }
    if (byte == ']' && num_items_ > 0) return BodyStatus::kDone;
    if (byte != '{') return BodyStatus::kFailed;
    ++num_items_;
    item_ = MakeObjectBody(sink_, tools_, {});
    item_->Step(byte);
    return BodyStatus::kMore;
  }

  void End() override {
    if (item_) item_->End();
  }

 private:
  const std::span<const ToolShape> tools_;
  bool opened_ = false;
  size_t num_items_ = 0;
  std::unique_ptr<CallBody> item_;
};

}  // namespace

std::unique_ptr<CallBody> MakeObjectBody(CallSink& sink, std::span<const ToolShape> tools,
                                         ObjectBodyOptions options) {
  return std::make_unique<ObjectBody>(sink, tools, options);
}

std::unique_ptr<CallBody> MakeListBody(CallSink& sink, std::span<const ToolShape> tools) {
  return std::make_unique<ListBody>(sink, tools);
}

}  // namespace kvgate::output
