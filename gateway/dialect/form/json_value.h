// Converts JSON values as the decoders yield them to data for chat templates and to text. Their
// depth is bounded by the body's limit. Included only by .cc files, like field_reader.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/text/jinja/value/data.h"
#include "gateway/dialect/form/field_reader.h"

namespace kvgate::dialect::form {

jinja::value::Data ToData(JsonElement value);
// Serialises the value in its own key order, without blanks.
std::string ToJson(JsonElement value);

}  // namespace kvgate::dialect::form
