// SchemaDocument: a JSON Schema as the client sent it, with access by location, resolution of
// references and checking of keywords. It knows no grammars.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "engine/text/grammar/rules/budget.h"
#include "engine/text/grammar/schema/indexed_object.h"

namespace kvgate::grammar::schema {

using Json = nlohmann::basic_json<IndexedObject>;  // properties keep the schema's order

struct SchemaLimits {
  size_t bytes_max = 256 * 1024;
  int depth_max = 64;
  size_t rules_max = 50'000;  // rules of the resulting grammar
  size_t one_of_max = 64;     // alternatives; every pair of them is compared
  size_t parts_max = 64;      // schemas that one value must meet at once
  // If true, unsupported schemas are not an error: they are ignored or replaced by any value.
  // Generated texts then may violate the schema.
  bool is_relaxed = false;
  // Shared by several schemas and charged by each; null: every schema has a budget of its own.
  rules::Budget* budget = nullptr;
};

// Types of values, one bit each. JSON Schema's "number" is kInteger | kFraction; 3.0 is an integer.
enum ValueType : unsigned {
  kNull = 1,
  kBoolean = 2,
  kString = 4,
  kInteger = 8,
  kFraction = 16,  // a number with a fractional part
  kArray = 32,
  kObject = 64,
  kAnyType = 127,
};

class SchemaDocument {
 public:
  // kInvalidArgument: not JSON, or neither an object nor a boolean; kTooLarge: a limit is exceeded.
  // Errors name the location in `field`: "properties.x.foo", empty for the whole schema.
  static Result<SchemaDocument> Parse(std::string_view text, const SchemaLimits& limits);

  const Json& root() const { return *root_; }
  // Returns the location of a part. REQUIRES: Child or Resolve returned it, or it is the root.
  std::string PathOf(const Json& part) const;

  // Returns the schema at schema[keyword], [keyword][index] or [keyword][name]. kInvalidArgument:
  // it is neither an object nor a boolean.
  Result<const Json*> Child(const Json& schema, const std::string& keyword);
  Result<const Json*> Child(const Json& schema, const std::string& keyword, size_t index);
  Result<const Json*> Child(const Json& schema, const std::string& keyword,
                            const std::string& name);
  // Returns the target of schema["$ref"]. kUnsupported: another document; kInvalidArgument: no such
  // target.
  Result<const Json*> Resolve(const Json& schema);

  // Checks that every keyword is supported and has a value of the right form. kUnsupported: the
  // error names the keyword. Child schemas are not checked themselves.
  Result<void> CheckKeywords(const Json& schema) const;

  Error ErrorAt(const Json& schema, std::string_view keyword, ErrorCode code,
                std::string_view what) const;

 private:
  SchemaDocument() = default;
  // The location of a part, as a step from its parent. Paths are built only for errors, because
  // names are long and every part below a name would hold a copy.
  struct Place {
    const Json* parent = nullptr;       // null: the step is the whole path
    const std::string* name = nullptr;  // property name, owned by the document
    std::string step;
  };
  Result<const Json*> Enter(const Json& part, Place place);
  std::string PathTo(const Json& schema, std::string_view keyword) const;

  bool is_relaxed_ = false;
  std::unique_ptr<Json> root_;  // on the heap, so that addresses stay valid when this moves
  std::unordered_map<const Json*, Place> places_;
  mutable std::unordered_set<const Json*> checked_;  // schemas whose keywords passed CheckKeywords
};

// Returns the types named by schema["type"] and "nullable", or nothing if it names none. REQUIRES:
// CheckKeywords succeeded.
std::optional<unsigned> NamedTypes(const Json& schema);
// Returns the types that keywords of the schema constrain; 0 if there are none.
unsigned TypesOfKeywords(const Json& schema);
// Returns true if the keyword does not constrain values.
bool IsNote(std::string_view keyword);
unsigned TypeOf(const Json& value);

}  // namespace kvgate::grammar::schema
