// Compiles JSON Schema (2020-12, and older spellings that are in use) to a grammar. Every text of
// the grammar is JSON whose value the schema accepts. The converse does not hold: if a schema
// leaves something open, the grammar picks one form, as the README describes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/text/grammar/rules/grammar.h"
#include "engine/text/grammar/schema/schema_document.h"

namespace kvgate::grammar::schema {

// Errors name the location in `field` ("properties.x.foo"; empty for the whole schema), and
// `detail` says what is wrong there. kUnsupported: a keyword or value that is not implemented.
// kInvalidArgument: not a schema, or no value can meet it. kTooLarge: a limit is exceeded.
Result<rules::Grammar> CompileJsonSchema(std::string_view schema, const SchemaLimits& limits);

// Adds the schema to a larger grammar.
Result<rules::ExprId> AddJsonSchema(rules::Grammar& grammar, std::string_view schema,
                                    const SchemaLimits& limits);

// A non-JSON format in which some models write the properties of an object, one after the other:
// before_key KEY behind_key VALUE behind_value, with `between` as the separator.
struct PairForm {
  std::string before_key = {};
  std::string behind_key = {};
  std::string behind_value = {};
  std::string between = {};
  // If not empty, strings are written raw and contain no `closing`. If empty, all values are JSON.
  std::string closing = {};
  bool plain_names = false;  // names consist of letters, digits and _ only
};
// The arguments of a call: a JSON object, or its properties in `form` if that is not null. A schema
// that no value can meet is not an error here; Analyze detects it.
Result<rules::ExprId> AddArguments(rules::Grammar& grammar, std::string_view schema,
                                   const SchemaLimits& limits, const PairForm* form);

// Any JSON object.
rules::Grammar AnyJsonObject();

}  // namespace kvgate::grammar::schema
