// Prompt runs: the parts of a chat's prompt whose tokens are counted apart. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/text/chat/chat_format.h"
#include "gateway/dialect/form/completion.h"

namespace kvgate::local {

// Returns the source under which each message is counted. Turns up to the last answer are history.
std::vector<std::string_view> SourcesOf(const std::vector<dialect::form::Message>& messages);

// Returns true if a cut lies behind the message, which is the last one of its element in the body's
// list. `cuts` are elements behind which tokens are counted apart, ascending.
bool IsCut(const std::vector<dialect::form::Message>& messages, size_t index,
           std::span<const int32_t> cuts);

// Makes the definitions of tools a segment of their own, if they lie within one.
void SplitTools(const chat::TokenizedChat& chat,
                std::vector<dialect::form::PromptSegment>& segments);

}  // namespace kvgate::local
