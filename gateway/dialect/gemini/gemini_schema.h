// Schemas of the Gemini dialect: the subset of OpenAPI 3.0 in which its clients say parameters and
// answers, as JSON Schema, which every other dialect takes.
#pragma once

#include <string>

#include "base/result.h"
#include "gateway/dialect/translate/raw_json.h"

namespace kvgate::dialect::gemini {

// Returns the schema as JSON Schema: types in lower case, `nullable` as a type of its own, numbers
// that are spelled as strings ("minItems": "1") as numbers. What has no meaning there
// (propertyOrdering, example) is left out, and all other members stay as they are. Equal bytes give
// equal bytes. `path` names the schema in errors (kInvalidArgument).
Result<std::string> JsonSchemaOf(const translate::RawJson& schema, const std::string& path);

}  // namespace kvgate::dialect::gemini
