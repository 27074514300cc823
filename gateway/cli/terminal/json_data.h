// JSON text as the data of a template.
#pragma once

#include <string_view>

#include <kvgate/result.h>

#include "engine/jinja/data.h"

namespace kvgate::cli {

// Keys in their order; whole numbers past 64 bits keep their digits. kInvalidArgument says where
// the text is no JSON.
Result<jinja::Data> ParseJsonData(std::string_view text);

}  // namespace kvgate::cli
