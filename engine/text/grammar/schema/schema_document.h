// SchemaDocument: a JSON Schema as it was sent: its parts by place, references resolved, keywords
// checked. It knows no grammars.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <kvgate/result.h>
#include <nlohmann/json.hpp>

#include "engine/grammar/budget.h"
#include "engine/grammar/indexed_object.h"

namespace kvgate::grammar {

using Json = nlohmann::basic_json<IndexedObject>;  // properties keep the schema's order

struct SchemaLimits {
  size_t bytes_max = 256 * 1024;
  int depth_max = 64;
  size_t rules_max = 50'000;  // of the grammar that is made from it
  size_t one_of_max = 64;     // alternatives, each compared with each
  size_t parts_max = 64;      // schemas that one value must all meet
  // What is not supported is not an error: it is left out, or any value stands there. So not every
  // text need meet the schema.
  bool is_relaxed = false;
  // What several schemas take together is charged here; null: each has a budget of its own.
  Budget* budget = nullptr;
};

// What a value may be, one bit each. A number that is an integer is both.
enum ValueType : unsigned {
  kNull = 1,
  kBoolean = 2,
  kString = 4,
  kInteger = 8,
  kFraction = 16,  // a number that is not written as an integer
  kArray = 32,
  kObject = 64,
  kAnyType = 127,
};

class SchemaDocument {
 public:
  // kInvalidArgument: no JSON, or neither an object nor a boolean; kTooLarge: a limit. Errors carry
  // the place in `field`: "properties.x.foo", empty for the whole.
  static Result<SchemaDocument> Parse(std::string_view text, const SchemaLimits& limits);

  const Json& root() const { return *root_; }
  // Where a part stands. REQUIRES: it was returned by Child or Resolve, or is the root.
  std::string PathOf(const Json& part) const;

  // The schema in schema[keyword], or in [keyword][index], [keyword][name].
  // kInvalidArgument: neither an object nor a boolean.
  Result<const Json*> Child(const Json& schema, const std::string& keyword);
  Result<const Json*> Child(const Json& schema, const std::string& keyword, size_t index);
  Result<const Json*> Child(const Json& schema, const std::string& keyword,
                            const std::string& name);
  // What schema["$ref"] points to. kUnsupported: outside this document; kInvalidArgument: nothing.
  Result<const Json*> Resolve(const Json& schema);

  // Every keyword is one that we have, with a value of its kind. kUnsupported names one that is
  // not. Of children only that they are there.
  Result<void> CheckKeywords(const Json& schema) const;

  Error ErrorAt(const Json& schema, std::string_view keyword, ErrorCode code,
                std::string_view what) const;

 private:
  SchemaDocument() = default;
  // Where a part stands: in another one by a step. Only what an error needs is written out: names
  // are long, and all parts below one would hold it.
  struct Place {
    const Json* parent = nullptr;       // null: the step is the whole path
    const std::string* name = nullptr;  // of a property, in the document
    std::string step;
  };
  Result<const Json*> Enter(const Json& part, Place place);
  std::string PathTo(const Json& schema, std::string_view keyword) const;

  bool is_relaxed_ = false;
  std::unique_ptr<Json> root_;  // stays where it is
  std::unordered_map<const Json*, Place> places_;
  mutable std::unordered_set<const Json*> checked_;  // whose keywords are in order
};

// The types that schema["type"] and "nullable" name; absent: it names none.
// REQUIRES: CheckKeywords was content.
std::optional<unsigned> NamedTypes(const Json& schema);
// The types that keywords of the schema are about; 0: none.
unsigned TypesOfKeywords(const Json& schema);
// A keyword that says nothing about values.
bool IsNote(std::string_view keyword);
unsigned TypeOf(const Json& value);

}  // namespace kvgate::grammar
