#include "gateway/session/compaction/edits.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/session/transcript/raw_object.h"

namespace kvgate::session::compaction {

using transcript::ElementsOf;
using transcript::RawObject;

namespace {

constexpr std::string_view kPlace = "context_management.edits";

Error Wrong(std::string_view member, std::string_view must) {
  std::string field = fmt::format("{}{}", kPlace, member);
  std::string why = fmt::format("Invalid value for '{}': it must be {}.", field, must);
  return MakeError(ErrorCode::kInvalidArgument, "session", std::move(why), std::move(field));
}

// Reads {"type", "value"}; the type is one of `units`, whose index is returned with the value.
struct Amount {
  size_t unit = 0;
  int64_t value = 0;
};
Result<Amount> ReadAmount(std::string_view json, std::string_view member, int64_t min,
                          std::vector<std::string_view> units) {
  const std::optional<RawObject> object = RawObject::Read(json);
  if (!object) return Wrong(member, "an object with a type and a value");
  const std::string type = object->StringAt("type");
  size_t unit = 0;
  while (unit < units.size() && units[unit] != type) ++unit;
  if (unit == units.size()) {
    return Wrong(fmt::format("{}.type", member), fmt::format("'{}'", fmt::join(units, "' or '")));
  }
  const std::string_view value = object->At("value");
  const int64_t number = object->IntegerAt("value");
  if (number < min || (number == 0 && value != "0")) {
    return Wrong(fmt::format("{}.value", member), fmt::format("a whole number from {}", min));
  }
  return Amount{.unit = unit, .value = number};
}

// Reads a list of names of tools.
Result<std::set<std::string>> ReadNames(std::string_view json, std::string_view member) {
  std::set<std::string> names;
  if (json.empty()) return names;
  if (!json.starts_with('[')) return Wrong(member, "a list of names");
  for (const std::string_view element : ElementsOf(json)) {
    if (!element.starts_with('"')) return Wrong(member, "a list of names");
    names.insert(prompt::parse::TextOrJson(element));
  }
  return names;
}

Result<ToolUseEdit> ReadToolUses(const RawObject& edit) {
  ToolUseEdit read;
  if (const std::string_view value = edit.At("trigger"); !value.empty()) {
    KVGATE_TRY(const Amount trigger,
               ReadAmount(value, ".trigger", 1, {"input_tokens", "tool_uses"}));
    read.unit = trigger.unit == 0 ? ToolUseEdit::Unit::kInputTokens : ToolUseEdit::Unit::kToolUses;
    read.trigger = trigger.value;
  }
  if (const std::string_view value = edit.At("keep"); !value.empty()) {
    KVGATE_TRY(const Amount keep, ReadAmount(value, ".keep", 0, {"tool_uses"}));
    read.keep = keep.value;
  }
  if (const std::string_view value = edit.At("clear_at_least"); !value.empty()) {
    KVGATE_TRY(const Amount least, ReadAmount(value, ".clear_at_least", 0, {"input_tokens"}));
    read.tokens_min = least.value;
  }
  KVGATE_TRY(read.excluded, ReadNames(edit.At("exclude_tools"), ".exclude_tools"));
  const std::string_view inputs = edit.At("clear_tool_inputs");
  if (!inputs.empty() && inputs != "true" && inputs != "false" && !inputs.starts_with('[')) {
    return Wrong(".clear_tool_inputs", "true, false or a list of names");
  }
  if (inputs.starts_with('[')) {
    KVGATE_TRY(read.input_tools, ReadNames(inputs, ".clear_tool_inputs"));
  }
  read.clears_inputs = inputs == "true" || !read.input_tools.empty();
  return read;
}

Result<ThinkingEdit> ReadThinking(const RawObject& edit) {
  const std::string_view value = edit.At("keep");
  if (value.empty()) return ThinkingEdit{};
  if (value == R"("all")") return ThinkingEdit{.keep = std::nullopt};
  const std::optional<RawObject> keep = RawObject::Read(value);
  if (keep && keep->StringAt("type") == "all") return ThinkingEdit{.keep = std::nullopt};
  KVGATE_TRY(const Amount turns, ReadAmount(value, ".keep", 1, {"thinking_turns", "all"}));
  return ThinkingEdit{.keep = turns.value};
}

}  // namespace

Result<Edits> ReadEdits(std::string_view list) {
  Edits edits;
  if (list.empty()) return edits;
  if (!list.starts_with('[')) return Wrong("", "a list");
  for (const std::string_view element : ElementsOf(list)) {
    const std::optional<RawObject> edit = RawObject::Read(element);
    if (!edit) return Wrong("", "a list of objects");
    const std::string type = edit->StringAt("type");
    if (type == kClearThinking) {
      if (edits.thinking) return Wrong(".type", fmt::format("'{}' once", type));
      if (edits.tool_uses) {
        return Wrong(".type", fmt::format("'{}' before '{}'", kClearThinking, kClearToolUses));
      }
      KVGATE_TRY(edits.thinking, ReadThinking(*edit));
    } else if (type == kClearToolUses) {
      if (edits.tool_uses) return Wrong(".type", fmt::format("'{}' once", type));
      KVGATE_TRY(edits.tool_uses, ReadToolUses(*edit));
    }
  }
  return edits;
}

}  // namespace kvgate::session::compaction
