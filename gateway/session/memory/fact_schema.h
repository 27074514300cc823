// FactSchema: which facts are looked for in a conversation: a JSON schema of an object whose
// properties are their names. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::memory {

inline constexpr size_t kSchemaBytesMax = 16'384;

class FactSchema {
 public:
  // Takes what is checked here: type, enum, const, properties, required, additionalProperties,
  // items, minimum, maximum, minLength, maxLength, minItems, maxItems. What only describes is
  // taken too. Fails with kInvalidArgument, whose field begins with "schema", for any other
  // keyword, for a schema without properties, and for a name that no memory takes.
  static Result<FactSchema> Read(const transcript::Json& schema);

  bool Has(std::string_view name) const;
  // True if the value is as the schema says of that fact. REQUIRES: Has(name).
  bool Allows(std::string_view name, const transcript::Json& value) const;
  // The schema as it was given, without spaces.
  std::string text() const { return transcript::Dump(schema_); }
  const transcript::Json& json() const { return schema_; }

 private:
  explicit FactSchema(transcript::Json schema) : schema_(std::move(schema)) {}

  transcript::Json schema_;
};

}  // namespace kvgate::session::memory
