// Reads items of the Responses dialect into the one form in which they are stored. Included only by
// the decoders' .cc files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/responses/response_items.h"

namespace kvgate::dialect::responses {

// Reads a string, which is a user message, or an array of items. A message gets its type and its
// content as parts; an item without an id gets one derived from `request_id`. PromptBuilder
// interprets the items' content.
Result<std::vector<ResponsesItem>> ReadItems(form::JsonElement value, const std::string& path,
                                             std::string_view request_id);

}  // namespace kvgate::dialect::responses
