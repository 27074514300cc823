// Reads texts that should be JSON but were written by a model or a client, without a body's limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/text/jinja/value/data.h"

namespace kvgate::dialect::form {

// Returns true if the text is a JSON number above `most`, and false if it is not a number.
bool IsNumberAbove(std::string_view text, int64_t most);

// Parses a JSON object. Returns nothing if it is not one or is nested too deep. Numbers keep their
// spelling.
std::optional<jinja::value::Data> ParseObject(std::string_view text);
// Returns an object text unchanged, blanks included; wraps any other text in an object, and returns
// an empty object for an empty text. Some dialects require arguments to be an object.
std::string AsObject(std::string_view text);

}  // namespace kvgate::dialect::form
