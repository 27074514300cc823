// ValueSet: a hash set of JSON values. Equality is that of nlohmann::json, so 1 equals 1.0.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "engine/text/grammar/schema/schema_document.h"

namespace kvgate::grammar::schema {

class ValueSet {
 public:
  ValueSet() = default;
  // Holds the elements of an array, which must outlive the set.
  explicit ValueSet(const Json& values) {
    for (const Json& value : values) Insert(value);
  }

  // Returns false if an equal value is present. The value must outlive the set.
  bool Insert(const Json& value) { return values_.insert(&value).second; }
  bool Contains(const Json& value) const { return values_.contains(&value); }

 private:
  struct Hash {
    size_t operator()(const Json* value) const;
  };
  struct Equal {
    bool operator()(const Json* a, const Json* b) const { return *a == *b; }
  };
  std::unordered_set<const Json*, Hash, Equal> values_;
};

}  // namespace kvgate::grammar::schema
