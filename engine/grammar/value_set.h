// ValueSet: JSON values, each found in time that does not depend on how many there are. Values are
// equal as nlohmann::json has them: 1 and 1.0 are.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "engine/text/grammar/schema/schema_document.h"

namespace kvgate::grammar {

class ValueSet {
 public:
  ValueSet() = default;
  // Of an array; it outlives the set.
  explicit ValueSet(const Json& values) {
    for (const Json& value : values) Insert(value);
  }

  // False: an equal one is there. The value outlives the set.
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

}  // namespace kvgate::grammar
