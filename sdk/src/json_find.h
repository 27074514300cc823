// A value of a JSON text by its pointer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sdk/src/transport/failure.h"

namespace kvgate::sdk {

// Stores a string's text, or the JSON of anything else. Fails with KVGATE_INVALID_ARGUMENT for what
// is no JSON or no pointer (RFC 6901), and with KVGATE_NOT_FOUND.
std::optional<transport::Failure> FindInJson(std::string_view json, const std::string& pointer,
                                             std::string& value);

}  // namespace kvgate::sdk
