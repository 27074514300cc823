// Whether one schema rules out another: what oneOf needs. A careful answer: "no" may mean "not that
// we see".
#pragma once

#include <kvgate/result.h>

#include "engine/text/grammar/schema/schema_document.h"

namespace kvgate::grammar {

struct ExclusionQuestion {
  const Json& written;  // we write values of it
  const Json& read;     // a validator asks whether they meet this one
  // Nothing else says what the value's properties or items are.
  bool alone = true;
};

// Whether no value that our grammar of `written` writes meets `read`.
// kUnsupported, kInvalidArgument: a reference, as SchemaDocument::Resolve. "No" where the budget is
// spent, which the caller must ask it.
Result<bool> Excludes(SchemaDocument& document, const ExclusionQuestion& question, Budget& budget);

}  // namespace kvgate::grammar
