// Items of a body in the Responses dialect, in the one form in which they are kept. Included only
// by the decoders' .cc files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/field_reader.h"
#include "gateway/protocol/form/response_items.h"

namespace kvgate::protocol {

// A string, which is a user's message, or an array of items. A message gets its type and its
// content as parts; what has no id gets one of `request_id`. What the items say is for
// PromptBuilder.
Result<std::vector<ResponsesItem>> ReadItems(JsonElement value, const std::string& path,
                                             std::string_view request_id);

}  // namespace kvgate::protocol
