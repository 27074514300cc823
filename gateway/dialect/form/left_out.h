// Handles parts of a request that the local engine cannot take: images and other media for a text
// model, tools that a provider runs itself, headers that mean nothing to a model. The prompt leaves
// them out in the same way in every turn, and the answer's header x-kvgate-left-out names them.
#pragma once

#include <string>
#include <string_view>

#include "gateway/dialect/form/completion.h"

namespace kvgate::dialect::form {

// AddLeftOut records a name that a client may have chosen: once each, as "other" if it may not
// stand in a header, and at most this many.
inline constexpr size_t kLeftOutMax = 16;
void AddLeftOut(std::string_view what, std::vector<std::string>& left_out);
bool IsLeftOutName(std::string_view what);

// These return true for calls of a provider's own tools and their results, which a conversation
// that began at a provider contains: items of Responses, and blocks of Messages.
bool IsProvidersItem(std::string_view type);
bool IsProvidersBlock(std::string_view type);

// A compaction is a summary that a provider wrote in place of earlier turns: sealed as an item of
// Responses, mostly readable as a block of Messages. If it cannot be read, a line of text says so,
// because otherwise the model would take the rest for the whole conversation.
bool IsCompaction(std::string_view type);
inline constexpr std::string_view kSealedCompaction =
    "[The conversation before this point was compacted by another provider into a form that only "
    "it can read. Ask the user for what is needed of it.]";

// The text that replaces a medium. It depends only on the medium, so that the prompt of the next
// turn begins with this turn's prompt.
struct Media {
  std::string_view what;  // "image", "audio", "video", "file"
  std::string_view type = {};
  std::string_view name = {};
};
std::string PlaceholderOf(const Media& media);
// Returns "image/png" for "data:image/png;base64,…", and an empty text for any other URL.
std::string_view MediaTypeOfUrl(std::string_view url);

inline constexpr std::string_view kBillingHeaderName = "x-anthropic-billing-header:";

// Removes the line that Claude Code puts in front of its system text. The line differs in every
// request and means nothing to a model.
std::string_view WithoutBillingHeader(std::string_view text);

}  // namespace kvgate::dialect::form
