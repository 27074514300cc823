// A model's own chat template as a ChatFormat.
//
// The template gets the variables that transformers gives it: messages, tools, documents,
// add_generation_prompt, bos_token and eos_token, and the request's own arguments. Roles known to
// the API count as written by the template, because templates make control tokens of them
// ("<|user|>"); everything else in a message is content. It has no stop strings, because the
// tokenizer knows a model's end tokens.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/text/chat/chat_format.h"

namespace kvgate::chat {

struct TemplateFormatOptions {
  std::string name;    // for error messages: "tokenizer.chat_template", a file name
  std::string source;  // Jinja
  // The template for conversations with tools, if the model has a separate one.
  std::optional<std::string> tool_use_source = {};
  std::optional<std::string> bos_token = {};
  std::optional<std::string> eos_token = {};
};

// kInvalidArgument: "NAME:LINE:COLUMN: what is wrong with the template".
Result<std::unique_ptr<ChatFormat>> MakeTemplateFormat(const TemplateFormatOptions& options);

// Variables that the request's own arguments must not override.
inline bool IsTemplateVariable(std::string_view name) {
  return name == "messages" || name == "tools" || name == "documents" ||
         name == "add_generation_prompt" || name == "bos_token" || name == "eos_token";
}

}  // namespace kvgate::chat
