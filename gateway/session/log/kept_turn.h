// Kept turns: how stored responses and conversations of the Responses dialect stand in the log of
// their sessions. A response is one entry: its own input, and the object that its client got. A
// conversation is a chain of entries that add items, remove items or set its metadata. A response
// in a conversation branches off that chain, so that deleting the response leaves the conversation
// whole. Pure; any thread.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/responses/response_items.h"
#include "gateway/session/log/logged_turn.h"
#include "store/meta/turn_store.h"

namespace kvgate::session::log {

// The roles that items of such an entry have. A note (logged_turn.h) may follow.
inline constexpr std::string_view kInputRole = "input";        // an array of items
inline constexpr std::string_view kResponseRole = "response";  // a response object
inline constexpr std::string_view kItemsRole = "items";        // an array of items
inline constexpr std::string_view kRemovedRole = "removed";    // the id of an item
inline constexpr std::string_view kMetadataRole = "metadata";  // an object

// Returns the payload of that role, or an empty text if the turn has none.
std::string_view PayloadOf(const store::meta::Turn& turn, std::string_view role);
// Applies to `items` what the turn adds to or removes from a conversation.
Result<void> AddTurnItems(const store::meta::Turn& turn,
                          std::vector<dialect::responses::ResponsesItem>& items);

// True if the turn is such an entry; others are of the form of LoggedTurn.
bool IsKept(const store::meta::Turn& turn);
// Reads one. Entries that say nothing are no turns. Fails with kDataLoss if it is not of that form.
Result<LoggedTurn> FromKept(const store::meta::Turn& turn);
// Takes out of what was said before what entries of a branch remove from it.
void ApplyRemovals(std::span<LoggedTurn> turns);

}  // namespace kvgate::session::log
