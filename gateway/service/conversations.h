// Conversations: what is asked of /v1/conversations, as JSON bodies. How they are kept:
// conversation_store.h. Thread-safe; may wait for the disk.
#pragma once

#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "gateway/protocol/decode_limits.h"
#include "gateway/protocol/form/response_items.h"
#include "gateway/service/conversation_store.h"

namespace kvgate::service {

class Conversations {
 public:
  // Both outlive it.
  Conversations(ConversationStore& store, const protocol::DecodeLimits& limits)
      : store_(store), limits_(limits) {}

  using Place = ConversationStore::Place;
  Result<std::string> Create(std::string_view tenant, std::string_view request_id,
                             std::string_view body);
  // kNotFound, of all of these.
  Result<std::string> Get(const Place& place) const;
  Result<std::string> Update(const Place& place, std::string_view body);
  Result<std::string> Delete(const Place& place);
  Result<std::string> AddItems(const Place& place, std::string_view body);
  Result<std::string> ListItems(const Place& place, const protocol::PageArgs& page) const;
  Result<std::string> GetItem(const Place& place, std::string_view item_id) const;
  Result<std::string> RemoveItem(const Place& place, std::string_view item_id);

 private:
  ConversationStore& store_;
  const protocol::DecodeLimits& limits_;
};

}  // namespace kvgate::service
