// How items of the Responses dialect stand in turns. A response is one turn: its input, and the
// object that its client got. A conversation is a line of turns that add items, take items away or
// set its metadata; a response in it hangs beside that line, so that deleting it leaves the
// conversation whole. Included by the stores of both.
#pragma once

#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/form/response_items.h"
#include "store/meta/turn_store.h"

namespace kvgate::service {

// The roles of a turn's items.
inline constexpr std::string_view kInputRole = "input";        // an array of items
inline constexpr std::string_view kResponseRole = "response";  // a response object
inline constexpr std::string_view kItemsRole = "items";        // an array of items
inline constexpr std::string_view kRemovedRole = "removed";    // the id of an item
inline constexpr std::string_view kMetadataRole = "metadata";  // an object

// The payload of that role; empty: the turn has none.
std::string_view PayloadOf(const store::Turn& turn, std::string_view role);
// What the turn adds to a conversation, or takes away.
Result<void> AddTurnItems(const store::Turn& turn, std::vector<protocol::ResponsesItem>& items);

}  // namespace kvgate::service
