// ReplyGrammar: what a reply may be, as a grammar: calls as its family writes them (families.h), of
// tools that may be called, with arguments that their schemas allow; reasoning before them where
// the prompt has opened it; text where the reply need not call. What follows it, ReplyParser takes
// apart into these calls.
//
// A reply that need not call is free text, in which each mark that opens a call goes on as a call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/text/grammar/compiler.h"
#include "engine/reply/families.h"

namespace kvgate::reply {

// What a tool takes: an object; or one text, its argument "input", which may have a grammar.
enum class InputKind : uint8_t { kObject, kText, kLark, kRegex };

struct CallableTool {
  std::string name;
  std::string parameters = {};  // JSON Schema; empty: it takes none
  // What its schema has and we do not is an error; else such parts of it are any JSON.
  bool strict = false;
  std::string field = {};  // where the schema, or the grammar, stands in the request, for errors
  InputKind input = InputKind::kObject;
  // What we cannot follow of it is left to the model, and logged; what is no grammar is an error.
  std::string input_grammar = {};
};

struct ReplyRules {
  std::string_view family;
  std::string_view chat_template = {};  // of two ways to write calls, the one that it has
  std::string_view prompt_tail = {};    // which may have opened the reasoning, or a header
  std::vector<CallableTool> tools = {};
  bool must_call = false;
  bool parallel = true;  // more than one call
  // What a text that is no call must be; null: anything.
  const grammar::Source* output = nullptr;
  std::string output_field = {};  // where it stands in the request
};

// Errors of schemas have their place in the request.
Result<grammar::Grammar> MakeReplyGrammar(const ReplyRules& rules,
                                          const grammar::Compiler::Options& options);
// Equal keys, equal grammars.
std::string KeyOf(const ReplyRules& rules);

// All marks that a family's replies are taken apart by.
std::vector<std::string> MarksOf(const Family& family);

}  // namespace kvgate::reply
