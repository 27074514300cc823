// Maps items of the Responses dialect to stored turns, for the two stores that include this. A
// response is one turn: its input and the object that its client got. A conversation is a chain of
// turns that add items, remove items or set its metadata. A response in a conversation branches off
// that chain, so that deleting the response leaves the conversation whole.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/protocol/form/response_items.h"
#include "store/meta/turn_store.h"

namespace kvgate::session {

// The roles that items of a turn have.
inline constexpr std::string_view kInputRole = "input";        // an array of items
inline constexpr std::string_view kResponseRole = "response";  // a response object
inline constexpr std::string_view kItemsRole = "items";        // an array of items
inline constexpr std::string_view kRemovedRole = "removed";    // the id of an item
inline constexpr std::string_view kMetadataRole = "metadata";  // an object

// Returns the payload of that role, or an empty text if the turn has none.
std::string_view PayloadOf(const store::meta::Turn& turn, std::string_view role);
// Applies to `items` what the turn adds to or removes from a conversation.
Result<void> AddTurnItems(const store::meta::Turn& turn,
                          std::vector<protocol::form::ResponsesItem>& items);

}  // namespace kvgate::session
