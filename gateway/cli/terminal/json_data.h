// Converts JSON text to the data of a Jinja template.
#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/text/jinja/value/data.h"

namespace kvgate::cli::terminal {

// Keys keep their order; integers beyond 64 bits keep their digits. Fails with kInvalidArgument,
// saying at which place the text is not JSON.
Result<jinja::value::Data> ParseJsonData(std::string_view text);

}  // namespace kvgate::cli::terminal
