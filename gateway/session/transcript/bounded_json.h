// Bounded JSON: what comes from outside is parsed only if it is not nested so deeply that writing
// it again, which recurses, could exhaust the stack. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace kvgate::session::transcript {

inline constexpr int kJsonDepthMax = 200;

// Members keep the order in which they were written.
using Json = nlohmann::ordered_json;

// True if brackets outside strings are nested deeper than kJsonDepthMax.
bool IsTooDeep(std::string_view json);

// Returns nullopt for what is no JSON, or is too deep.
std::optional<Json> ParseJson(std::string_view json);
// Writes it without spaces; bytes that are no UTF-8 become U+FFFD.
std::string Dump(const Json& json);

// A member of an object; null for anything else. The reference lives as long as `json`.
const Json& MemberOf(const Json& json, const char* name);
// A member that is a string or a number; "" or 0 for anything else.
std::string StringAt(const Json& json, const char* name);
int64_t IntegerAt(const Json& json, const char* name);

}  // namespace kvgate::session::transcript
