#include "engine/text/grammar/schema/value_set.h"

#include <string>

namespace kvgate::grammar::schema {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

// SchemaLimits::depth_max bounds the recursion.
uint64_t HashOf(const Json& value) {
  if (value.is_string()) return SecretHash(value.get_ref<const std::string&>());
  if (value.is_number()) {
    const double number = value.get<double>() + 0.0;  // -0 is 0
    return SecretHash({reinterpret_cast<const char*>(&number), sizeof(number)});
  }
  uint64_t hash = static_cast<uint64_t>(value.type());
  if (value.is_boolean()) return Mix(hash, value.get<bool>() ? 1 : 0);
  if (value.is_array()) {
    for (const Json& item : value) hash = Mix(hash, HashOf(item));
  }
  if (value.is_object()) {
    for (const auto& [name, item] : value.items()) {
      hash = Mix(Mix(hash, SecretHash(name)), HashOf(item));
    }
  }
  return hash;
}

}  // namespace

size_t ValueSet::Hash::operator()(const Json* value) const { return HashOf(*value); }

}  // namespace kvgate::grammar::schema
