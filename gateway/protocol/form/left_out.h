// What a request has and the local engine cannot take: images and other media for a model that
// reads text, tools that a provider runs itself, headers that say nothing to a model. The prompt
// goes without it, the same in every turn, and the answer's header x-kvgate-left-out names it.
#pragma once

#include <string>
#include <string_view>

#include "gateway/protocol/form/completion.h"

namespace kvgate::protocol {

// Of the names that a client chose, those that may stand in a header; once each, so many at most.
inline constexpr size_t kLeftOutMax = 16;
void AddLeftOut(std::string_view what, std::vector<std::string>& left_out);
bool IsLeftOutName(std::string_view what);

// Calls of a provider's own tools, and what came of them: they come along where a conversation
// began at one. Items of Responses, and blocks of Messages.
bool IsProvidersItem(std::string_view type);
bool IsProvidersBlock(std::string_view type);

// A summary of the turns before, which a provider wrote in place of them: an item of Responses,
// sealed, and a block of Messages, mostly with its text. Where nobody else can read it a line of
// text says so, or the model would take what follows for the whole conversation.
bool IsCompaction(std::string_view type);
inline constexpr std::string_view kSealedCompaction =
    "[The conversation before this point was compacted by another provider into a form that only "
    "it can read. Ask the user for what is needed of it.]";

// The text that stands where a medium was: it depends on nothing but the medium, so that the prompt
// of the next turn begins with this one's.
struct Media {
  std::string_view what;  // "image", "audio", "video", "file"
  std::string_view type = {};
  std::string_view name = {};
};
std::string PlaceholderOf(const Media& media);
// "image/png" of "data:image/png;base64,…"; empty of any other URL.
std::string_view MediaTypeOfUrl(std::string_view url);

inline constexpr std::string_view kBillingHeaderName = "x-anthropic-billing-header:";

// Without the line that Claude Code puts in front of its system text: it differs in every request
// and says nothing to a model.
std::string_view WithoutBillingHeader(std::string_view text);

}  // namespace kvgate::protocol
