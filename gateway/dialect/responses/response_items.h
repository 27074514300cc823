// Items of the Responses dialect, the parts of a conversation as they are stored and listed.
//
// An item is stored as JSON with its type and an id. Ids made by this gateway name the request that
// made them, so that an item is found by its id alone: "msg_kvREQUEST_2" belongs to the response
// "resp_kvREQUEST".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvgate::dialect::responses {

inline constexpr std::string_view kConversationPrefix = "conv_kv";

struct ResponsesItem {
  std::string id;
  std::string json;
  bool is_reference = false;  // {"type":"item_reference"}: stands for the item with this id
};

// Returns an id such as "msg_kvREQUEST_0". Items that a caller sent get "msg_kvREQUEST_i0" instead.
std::string AnswerItemId(std::string_view type, std::string_view request_id, size_t index);
// Returns the request that an id was made for; empty if this gateway did not make the id.
std::string_view RequestOf(std::string_view id);

// Encodes reasoning in the form that a client sends back unread, and decodes it; decoding returns
// an empty text for other data.
std::string SealReasoning(std::string_view text);
std::string OpenReasoning(std::string_view sealed);

// Parses the items of a stored JSON array.
Result<std::vector<ResponsesItem>> ParseItems(std::string_view array);
std::string ToArray(std::span<const ResponsesItem> items);

// Encodes {"object":"list","data":…,"first_id","last_id","has_more"}.
std::string EncodeItemList(std::span<const ResponsesItem> items, bool has_more);

// The query of a page of items.
struct PageArgs {
  std::string_view limit = {};  // all three are query parameters; empty: the default
  std::string_view order = {};
  std::string_view after = {};
};
Result<std::string> EncodeItemPage(std::span<const ResponsesItem> items, const PageArgs& args);

}  // namespace kvgate::dialect::responses
