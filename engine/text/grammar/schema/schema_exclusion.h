// Decides if one schema excludes another, which oneOf needs. The answer is conservative: "no" may
// mean that the exclusion was not recognised.
#pragma once

#include "base/result.h"
#include "engine/text/grammar/schema/schema_document.h"

namespace kvgate::grammar::schema {

struct ExclusionQuestion {
  const Json& written;  // the schema that the grammar generates values of
  const Json& read;     // the schema that a validator checks those values against
  // No other schema constrains the properties or items of the value.
  bool alone = true;
};

// Returns true if no value that our grammar of `written` generates meets `read`. kUnsupported,
// kInvalidArgument: a reference fails as in SchemaDocument::Resolve. The answer means nothing if
// the budget is spent; the caller must check that.
Result<bool> Excludes(SchemaDocument& document, const ExclusionQuestion& question,
                      rules::Budget& budget);

}  // namespace kvgate::grammar::schema
