// JSON values as they leave the decoders: as data for chat templates, and as text. Bounded in depth
// by the body's limit. Included only by .cc files, as field_reader.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/jinja/data.h"
#include "gateway/protocol/field_reader.h"

namespace kvgate::protocol {

jinja::Data ToData(JsonElement value);
// In the value's own order, without blanks.
std::string ToJson(JsonElement value);

}  // namespace kvgate::protocol
