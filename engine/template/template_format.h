// A model's own chat template as a ChatFormat.
//
// The template sees what transformers gives it: messages, tools, documents, add_generation_prompt,
// bos_token and eos_token, and the request's own arguments. Roles that are known to the API count
// as written by the template, because templates make control tokens of them ("<|user|>"); all else
// in a message is content. It has no stop strings: a model's end tokens are the tokenizer's matter.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "engine/text/chat/chat_format.h"

namespace kvgate::chat {

struct TemplateFormatOptions {
  std::string name;    // where it is from, for messages: "tokenizer.chat_template", a file's name
  std::string source;  // Jinja
  // What conversations with tools are rendered with instead, where the model has one.
  std::optional<std::string> tool_use_source = {};
  std::optional<std::string> bos_token = {};
  std::optional<std::string> eos_token = {};
};

// kInvalidArgument: "NAME:LINE:COLUMN: what is wrong with the template".
Result<std::unique_ptr<ChatFormat>> MakeTemplateFormat(const TemplateFormatOptions& options);

// The variables that a request's own arguments must not be.
inline bool IsTemplateVariable(std::string_view name) {
  return name == "messages" || name == "tools" || name == "documents" ||
         name == "add_generation_prompt" || name == "bos_token" || name == "eos_token";
}

}  // namespace kvgate::chat
