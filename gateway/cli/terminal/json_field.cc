#include "gateway/cli/terminal/json_field.h"

namespace kvgate::cli::terminal {

using Json = nlohmann::json;

Json FieldOf(const Json& object, const char* name) {
  return object.is_object() ? object.value(name, Json()) : Json();
}

int64_t CountOf(const Json& object, const char* name, int64_t otherwise) {
  const Json field = FieldOf(object, name);
  return field.is_number() ? field.get<int64_t>() : otherwise;
}

std::string TextOf(const Json& object, const char* name) {
  const Json field = FieldOf(object, name);
  return field.is_string() ? field.get<std::string>() : "";
}

}  // namespace kvgate::cli::terminal
