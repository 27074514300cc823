// Families: how models write reasoning and calls, one row each, and which row a chat template
// means.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kvgate::reply {

// What stands behind the mark that opens a call.
enum class CallSyntax : uint8_t {
  kTagged,     // {"name","arguments"}, a list of them, <function=NAME>…, or NAME<arg_key>…
  kFunction,   // NAME>{…} or NAME><parameter=KEY>VALUE</parameter>…</function>
  kNamed,      // NAME, a separator, {…}; or {…} or […] as kTagged
  kBare,       // {"name","parameters"} of a tool that there is, at the beginning of the reply
  kPythonTag,  // {"name","parameters"}, or NAME.call(KEY=VALUE, …), or code
  kPython,     // [NAME(KEY=VALUE, …), …], or a list of {"name","arguments"}
};

struct CallForm {
  std::string_view open;  // empty: kBare
  CallSyntax syntax = CallSyntax::kTagged;
  // Behind a name of kNamed, each with what follows it.
  std::string_view before_arguments = {};
  std::string_view before_id = {};
  // What may stand behind the call, in this order, each of them or not.
  std::array<std::string_view, 2> close = {};
};

struct ReasoningTags {
  std::string_view open;
  std::string_view close;
};

enum class ReplyShape : uint8_t { kTags, kChannels, kRecipients };

struct Family {
  std::string_view name;
  ReplyShape shape = ReplyShape::kTags;
  std::array<CallForm, 2> forms = {};
  ReasoningTags reasoning = {.open = "<think>", .close = "</think>"};
  // Marks around calls and answers that say nothing themselves.
  std::array<std::string_view, 4> silent = {};
  // Its marks are control tokens, which a detokenizer leaves out unless asked for them.
  bool control_marks = false;
  // Ids are the model's own to choose: letters and digits, so many. 0: any.
  int id_length = 0;
};

std::span<const Family> AllFamilies();
// REQUIRES: there is one of that name.
const Family& FamilyNamed(std::string_view name);
// The family whose marks a chat template has; "generic" where it has none, or knows no tools.
std::string_view RecogniseFamily(std::string_view chat_template);

}  // namespace kvgate::reply
