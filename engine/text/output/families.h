// Families: one row for each way in which models write reasoning and calls, and the choice of the
// row for a chat template.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvgate::output {

// The syntax that follows the mark that opens a call.
enum class CallSyntax : uint8_t {
  kTagged,     // {"name","arguments"}, a list of them, <function=NAME>…, or NAME<arg_key>…
  kFunction,   // NAME>{…} or NAME><parameter=KEY>VALUE</parameter>…</function>
  kNamed,      // NAME, a separator, {…}; or {…} or […] as for kTagged
  kBare,       // {"name","parameters"} of a known tool, at the beginning of the reply
  kPythonTag,  // {"name","parameters"}, or NAME.call(KEY=VALUE, …), or code
  kPython,     // [NAME(KEY=VALUE, …), …], or a list of {"name","arguments"}
};

struct CallForm {
  std::string_view open;  // empty: kBare
  CallSyntax syntax = CallSyntax::kTagged;
  // For kNamed: the separators after the name, before the arguments and before the id.
  std::string_view before_arguments = {};
  std::string_view before_id = {};
  // Marks that may follow the call, in this order; each is optional.
  std::array<std::string_view, 2> close = {};
};

struct ReasoningTags {
  std::string_view open;
  std::string_view close;
};

enum class ReplyShape : uint8_t { kTags, kChannels, kRecipients };

// How calls are written as text, for a chat template that does not write them itself.
enum class CallStyle : uint8_t {
  kTags,    // <tool_call>{"name","arguments"}</tool_call>, one per call
  kPython,  // <|tool_call_start|>[name(key=value)]<|tool_call_end|>
  kList,    // <|tool_call|>[{"name","arguments"}]<|/tool_call|>
  kKimi,    // <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>
};

// An example of a call, for templates that write calls but do not list tools. It is that of
// templates which contain `mark`.
struct CallExample {
  std::string_view mark;
  std::string_view text;
};

struct Family {
  std::string_view name;
  ReplyShape shape = ReplyShape::kTags;
  std::array<CallForm, 2> forms = {};
  ReasoningTags reasoning = {.open = "<think>", .close = "</think>"};
  // Marks around calls and answers that are dropped.
  std::array<std::string_view, 4> silent = {};
  // The marks are control tokens, which a detokenizer drops unless asked to keep them.
  bool control_marks = false;
  // Required length of call ids, in letters and digits; 0: any id is valid.
  int id_length = 0;
  CallStyle style = CallStyle::kTags;
  std::array<CallExample, 2> examples = {};  // the first whose mark is found counts
};

std::span<const Family> AllFamilies();
// Returns the family's example for this template; empty if it has none.
std::string_view ExampleOf(const Family& family, std::string_view chat_template);
// REQUIRES: a family of that name exists.
const Family& FamilyNamed(std::string_view name);
// Returns the family whose marks the template contains; "generic" if it has none or supports no
// tools.
std::string_view RecogniseFamily(std::string_view chat_template);

}  // namespace kvgate::output
