// JSON Schema (2020-12, with the older spellings that are in use) compiled to a grammar: each text
// of the grammar is a JSON text whose value the schema allows. The converse does not hold: where a
// schema leaves things open the grammar takes one way, as the README says.
#pragma once

#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "engine/grammar/grammar.h"
#include "engine/text/grammar/schema/schema_document.h"

namespace kvgate::grammar {

// Errors have the place in `field` ("properties.x.foo"; empty: the whole schema) and say in
// `detail` what is wrong there. kUnsupported: a keyword or value that we do not have.
// kInvalidArgument: not a schema, or nothing can meet it. kTooLarge: a limit.
Result<Grammar> CompileJsonSchema(std::string_view schema, const SchemaLimits& limits);

// The same as a part of a larger grammar.
Result<ExprId> AddJsonSchema(Grammar& grammar, std::string_view schema, const SchemaLimits& limits);

// How some models write the properties of an object, one by one, each in turn:
// before_key KEY behind_key VALUE behind_value, with `between` between them.
struct PairForm {
  std::string before_key = {};
  std::string behind_key = {};
  std::string behind_value = {};
  std::string between = {};
  // Strings are written as they are, and nothing contains this; empty: all values are JSON.
  std::string closing = {};
  bool plain_names = false;  // letters, digits and _
};
// The arguments of a call: an object, or what it has in that form. That nothing can meet the schema
// is no error here: Analyze tells.
Result<ExprId> AddArguments(Grammar& grammar, std::string_view schema, const SchemaLimits& limits,
                            const PairForm* form);

// Any JSON object.
Grammar AnyJsonObject();

}  // namespace kvgate::grammar
