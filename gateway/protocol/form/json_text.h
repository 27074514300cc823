// Texts that should be JSON but were written by a model or a client: read without a body's limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/jinja/data.h"

namespace kvgate::protocol {

// Whether the text is a JSON number above `most`; what is no number is not.
bool IsNumberAbove(std::string_view text, int64_t most);

// A JSON object; nothing where it is none, or nested too deep. Numbers keep their spelling.
std::optional<jinja::Data> ParseObject(std::string_view text);
// An object as it stands, blanks and all; of anything else an object that holds it, and of nothing
// an empty one: for dialects where arguments are an object and must be one.
std::string AsObject(std::string_view text);

}  // namespace kvgate::protocol
