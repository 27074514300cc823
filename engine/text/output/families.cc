#include "engine/text/output/families.h"

#include <algorithm>

#include "base/check.h"

namespace kvgate::output {
namespace {

constexpr CallForm kToolCallTag = {.open = "<tool_call>", .close = {"</tool_call>"}};
constexpr CallForm kFunctionTag = {
    .open = "<function=", .syntax = CallSyntax::kFunction, .close = {"</tool_call>"}};

constexpr Family kFamilies[] = {
    // The form that chat_fit.h shows models if tools are written as text; also the default for
    // unknown models.
    {.name = "generic", .forms = {kToolCallTag}},
    // Hermes, Qwen 2.5 and 3, and many models trained on their calls.
    {.name = "hermes", .forms = {kToolCallTag}},
    {.name = "qwen3-coder", .forms = {kToolCallTag, kFunctionTag}},
    // GLM 4.5 and later.
    {.name = "glm", .forms = {kToolCallTag}},
    // Functionary 3.1, and Llama's own form for custom tools.
    {.name = "functionary-3.1", .forms = {kFunctionTag}},
    {.name = "llama3",
     .forms = {CallForm{.open = "<|python_tag|>", .syntax = CallSyntax::kPythonTag},
               CallForm{.open = "", .syntax = CallSyntax::kBare}},
     .control_marks = true},
    {.name = "mistral",
     .forms = {CallForm{.open = "[TOOL_CALLS]",
                        .syntax = CallSyntax::kNamed,
                        .before_arguments = "[ARGS]",
                        .before_id = "[CALL_ID]"}},
     .reasoning = {.open = "[THINK]", .close = "[/THINK]"},
     .control_marks = true,
     .id_length = 9},
    // V3 and R1 write "function", the separator and the name; V3.1 writes only the name.
    {.name = "deepseek",
     .forms = {CallForm{.open = "<｜tool▁call▁begin｜>",
                        .syntax = CallSyntax::kNamed,
                        .before_arguments = "<｜tool▁sep｜>",
                        .close = {"```", "<｜tool▁call▁end｜>"}}},
     .silent = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
     .control_marks = true,
     .examples = {CallExample{
                      .mark = "```json",
                      .text = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME"
                              "\n```json\n{…}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
                  CallExample{
                      .mark = "",
                      .text = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{…}"
                              "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"}}},
    {.name = "kimi",
     .forms = {CallForm{.open = "<|tool_call_begin|>",
                        .syntax = CallSyntax::kNamed,
                        .before_arguments = "<|tool_call_argument_begin|>",
                        .close = {"<|tool_call_end|>"}}},
     .silent = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"},
     .control_marks = true,
     .style = CallStyle::kKimi},
    {.name = "command-r",
     .forms = {CallForm{.open = "<|START_ACTION|>", .close = {"<|END_ACTION|>"}},
               CallForm{.open = "Action: ```json", .close = {"```"}}},
     .reasoning = {.open = "<|START_THINKING|>", .close = "<|END_THINKING|>"},
     .silent = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
     .control_marks = true},
    {.name = "lfm2",
     .forms = {CallForm{.open = "<|tool_call_start|>",
                        .syntax = CallSyntax::kPython,
                        .close = {"<|tool_call_end|>"}}},
     .control_marks = true,
     .style = CallStyle::kPython},
    // Phi 4. Granite writes only the opening mark.
    {.name = "phi",
     .forms = {CallForm{.open = "<|tool_call|>", .close = {"<|/tool_call|>"}}},
     .control_marks = true,
     .style = CallStyle::kList},
    // gpt-oss.
    {.name = "harmony", .shape = ReplyShape::kChannels, .control_marks = true},
    // Functionary 3.2.
    {.name = "functionary-3.2", .shape = ReplyShape::kRecipients},
};

struct Mark {
  std::string_view text;
  std::string_view family;
};
// The first match wins, because some marks occur in the templates of several families.
constexpr Mark kMarks[] = {
    {"<|channel|>", "harmony"},
    {"<｜tool▁call▁begin｜>", "deepseek"},
    {"<|tool_call_begin|>", "kimi"},
    {"[TOOL_CALLS]", "mistral"},
    {"<|tool_list_start|>", "lfm2"},
    {"<|tool_call|>", "phi"},
    {"<|/tool|>", "phi"},
    {"<|START_ACTION|>", "command-r"},
    {"<|START_OF_TURN_TOKEN|>", "command-r"},
    {">>>all", "functionary-3.2"},
    {"<parameter=", "qwen3-coder"},
    {"<arg_key>", "glm"},
    {"<tool_call>", "hermes"},
    {"<function=", "functionary-3.1"},
    {"<|python_tag|>", "llama3"},
    {"<|start_header_id|>", "llama3"},
};

}  // namespace

std::span<const Family> AllFamilies() { return kFamilies; }

std::string_view ExampleOf(const Family& family, std::string_view chat_template) {
  for (const CallExample& example : family.examples) {
    if (chat_template.find(example.mark) != std::string_view::npos) return example.text;
  }
  return {};
}

const Family& FamilyNamed(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                         [&](const Family& family) { return family.name == name; });
  KVGATE_CHECK(found != std::end(kFamilies), "a family that there is not");
  return *found;
}

std::string_view RecogniseFamily(std::string_view chat_template) {
  const auto has = [&](std::string_view text) {
    return chat_template.find(text) != std::string_view::npos;
  };
  const bool harmony = has("<|channel|>");
  if (!has("tool") && !harmony) return "generic";
  for (const Mark& mark : kMarks) {
    if (has(mark.text)) return mark.family;
  }
  return "generic";
}

}  // namespace kvgate::output
