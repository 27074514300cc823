#include "engine/text/output/call_writing.h"

#include "base/check.h"

namespace kvgate::output {
namespace {

constexpr std::string_view kNamed = "{\"name\": \"";
constexpr std::string_view kArguments = "\", \"arguments\": ";

CallWriting InTag() {
  return {.head = "<tool_call>\n{\"name\": \"",
          .middle = std::string(kArguments),
          .tail = "}\n</tool_call>",
          .between = "\n",
          .mark = "<tool_call>"};
}

CallWriting InList(std::string mark, std::string end) {
  return {.begin = mark + "[",
          .head = std::string(kNamed),
          .middle = std::string(kArguments),
          .tail = "}",
          .between = ", ",
          .end = "]" + std::move(end),
          .mark = mark};
}

CallWriting Qwen3Coder() {
  return {.head = "<tool_call>\n<function=",
          .middle = ">\n",
          .tail = "</function>\n</tool_call>",
          .between = "\n",
          .pairs = grammar::schema::PairForm{.before_key = "<parameter=",
                                             .behind_key = ">\n",
                                             .behind_value = "\n</parameter>\n",
                                             .closing = "</parameter>"},
          .mark = "<tool_call>"};
}

CallWriting Glm() {
  return {.head = "<tool_call>",
          .middle = "\n",
          .tail = "</tool_call>",
          .between = "\n",
          .pairs = grammar::schema::PairForm{.before_key = "<arg_key>",
                                             .behind_key = "</arg_key>\n<arg_value>",
                                             .behind_value = "</arg_value>\n",
                                             .closing = "</arg_value>"},
          .mark = "<tool_call>"};
}

CallWriting DeepSeek(bool fenced) {
  CallWriting writing = {.begin = "<｜tool▁calls▁begin｜>",
                         .head = "<｜tool▁call▁begin｜>",
                         .middle = "<｜tool▁sep｜>",
                         .tail = "<｜tool▁call▁end｜>",
                         .end = "<｜tool▁calls▁end｜>",
                         .mark = "<｜tool▁calls▁begin｜>"};
  if (fenced) {
    writing.head += "function<｜tool▁sep｜>";
    writing.middle = "\n```json\n";
    writing.tail = "\n```<｜tool▁call▁end｜>";
    writing.between = "\n";
  }
  return writing;
}

CallWriting CommandR(bool marks) {
  if (!marks) {
    return {.begin = "Action: ```json\n[\n    ",
            .head = "{\n        \"tool_name\": \"",
            .middle = "\",\n        \"parameters\": ",
            .tail = "\n    }",
            .between = ",\n    ",
            .end = "\n]```",
            .mark = "Action: ```json"};
  }
  return {.begin = "<|START_ACTION|>[\n    ",
          .head = "{\"tool_call_id\": \"#\", \"tool_name\": \"",
          .middle = "\", \"parameters\": ",
          .tail = "}",
          .between = ",\n    ",
          .end = "\n]<|END_ACTION|>",
          .mark = "<|START_ACTION|>"};
}

CallWriting Lfm2() {
  return {
      .begin = "<|tool_call_start|>[",
      .middle = "(",
      .tail = ")",
      .between = ", ",
      .end = "]<|tool_call_end|>",
      .pairs = grammar::schema::PairForm{.behind_key = "=", .between = ", ", .plain_names = true},
      .mark = "<|tool_call_start|>"};
}

}  // namespace

CallWriting WritingOf(const Family& family, std::string_view chat_template) {
  const auto has = [&](std::string_view text) {
    return chat_template.find(text) != std::string_view::npos;
  };
  const std::string_view name = family.name;
  if (name == "qwen3-coder") return Qwen3Coder();
  if (name == "glm") return Glm();
  if (name == "functionary-3.1") {
    return {.head = "<function=", .middle = ">", .tail = "</function>", .mark = "<function="};
  }
  if (name == "llama3") {
    return {.head = std::string(kNamed),
            .middle = "\", \"parameters\": ",
            .tail = "}",
            .between = "; "};
  }
  if (name == "mistral") {
    if (!has("[ARGS]")) return InList("[TOOL_CALLS]", "");
    return {.head = "[TOOL_CALLS]", .middle = "[ARGS]", .mark = "[TOOL_CALLS]"};
  }
  if (name == "deepseek") return DeepSeek(has("```json"));
  if (name == "kimi") {
    return {.begin = "<|tool_calls_section_begin|>",
            .head = "<|tool_call_begin|>functions.",
            .middle = ":#<|tool_call_argument_begin|>",
            .tail = "<|tool_call_end|>",
            .end = "<|tool_calls_section_end|>",
            .mark = "<|tool_calls_section_begin|>"};
  }
  if (name == "command-r") return CommandR(has("<|START_ACTION|>"));
  if (name == "lfm2") return Lfm2();
  if (name == "phi") return InList("<|tool_call|>", has("<|/tool_call|>") ? "<|/tool_call|>" : "");
  if (name == "harmony") {
    return {.head = "<|channel|>commentary to=functions.",
            .middle = " <|constrain|>json<|message|>",
            .single = true};
  }
  if (name == "functionary-3.2") return {.middle = "\n", .between = ">>>"};
  return InTag();
}

}  // namespace kvgate::output
