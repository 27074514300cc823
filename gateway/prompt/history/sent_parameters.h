// Lists the parameters of a request that are remembered, because a change of one may explain a
// miss. Pure; any thread may call it.
#pragma once

#include <string_view>
#include <vector>

#include "gateway/prompt/history/conversation.h"
#include "gateway/prompt/parse/request_layout.h"

namespace kvgate::prompt::history {

// Returns those that affect the prompt or its caching, each with the first 256 bytes of its value.
std::vector<SentParameter> ParametersOf(std::string_view body, const parse::RequestLayout& layout);

}  // namespace kvgate::prompt::history
