// Items of the Responses dialect: what a conversation consists of, as it is kept and listed.
//
// An item is kept as JSON with its type and an id. Ids of ours name the request that made them, so
// that an item is found by its id alone: "msg_kvREQUEST_2" is of the response "resp_kvREQUEST".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::protocol {

inline constexpr std::string_view kResponsePrefix = "resp_kv";
inline constexpr std::string_view kConversationPrefix = "conv_kv";

struct ResponsesItem {
  std::string id;
  std::string json;
  bool is_reference = false;  // {"type":"item_reference"}: the one of that id is meant
};

// "msg_kvREQUEST_0" of an answer, "msg_kvREQUEST_i0" of what a caller sent.
std::string AnswerItemId(std::string_view type, std::string_view request_id, size_t index);
// The request that an id of ours was minted for; empty: the id is not ours.
std::string_view RequestOf(std::string_view id);

// Reasoning that a client sends back unread, and what it was; empty: it is none of ours.
std::string SealReasoning(std::string_view text);
std::string OpenReasoning(std::string_view sealed);

// Those of a JSON array that was kept.
Result<std::vector<ResponsesItem>> ParseItems(std::string_view array);
std::string ToArray(std::span<const ResponsesItem> items);

// {"object":"list","data":…,"first_id","last_id","has_more"}
std::string EncodeItemList(std::span<const ResponsesItem> items, bool has_more);

// A page of them.
struct PageArgs {
  std::string_view limit = {};  // all three as in a query; empty: the default
  std::string_view order = {};
  std::string_view after = {};
};
Result<std::string> EncodeItemPage(std::span<const ResponsesItem> items, const PageArgs& args);

}  // namespace kvgate::protocol
