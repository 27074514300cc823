// Fields of JSON that a server has sent, which may lack them or have them of another kind. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::cli::terminal {

// Null if `object` is no object or has no such field.
nlohmann::json FieldOf(const nlohmann::json& object, const char* name);
// `otherwise` if it is no number.
int64_t CountOf(const nlohmann::json& object, const char* name, int64_t otherwise = 0);
// Empty if it is no string.
std::string TextOf(const nlohmann::json& object, const char* name);

}  // namespace kvgate::cli::terminal
