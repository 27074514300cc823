// ReplyGrammar: builds the grammar of a reply: calls in the form of the model's family
// (families.h), to the offered tools, with arguments that meet their schemas; reasoning before them
// if the prompt opened it; text if the reply need not call. ReplyParser splits every text of the
// grammar into these calls.
//
// A reply that need not call is free text in which each mark that opens a call must continue as a
// call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/text/grammar/compiler.h"
#include "engine/text/output/families.h"

namespace kvgate::output {

// The input of a tool: an object, or a single text (its argument "input"), which may have a
// grammar.
enum class InputKind : uint8_t { kObject, kText, kLark, kRegex };

struct CallableTool {
  std::string name;
  std::string parameters = {};  // JSON Schema; empty: no arguments
  // true: unsupported parts of the schema are an error; false: they allow any JSON.
  bool strict = false;
  std::string field = {};  // location of the schema or grammar in the request, for errors
  InputKind input = InputKind::kObject;
  // If it uses unsupported features, the text is unconstrained and a warning is logged. Invalid
  // grammars are errors.
  std::string input_grammar = {};
};

struct ReplyRules {
  std::string_view family;
  std::string_view chat_template = {};  // selects between two forms of calls
  std::string_view prompt_tail = {};    // may have opened the reasoning or a header
  std::vector<CallableTool> tools = {};
  bool must_call = false;
  bool parallel = true;  // several calls are allowed
  // The required format of text that is not a call; null: any text.
  const grammar::Source* output = nullptr;
  std::string output_field = {};  // its location in the request
};

// Errors of schemas name their location in the request.
Result<grammar::rules::Grammar> MakeReplyGrammar(const ReplyRules& rules,
                                                 const grammar::Compiler::Options& options);
// Rules with equal keys have equal grammars.
std::string KeyOf(const ReplyRules& rules);

// Returns all marks that structure the replies of a family.
std::vector<std::string> MarksOf(const Family& family);

}  // namespace kvgate::output
