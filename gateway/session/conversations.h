// Conversations answers requests to /v1/conversations with JSON bodies; conversation_store.h keeps
// them. It is thread-safe and may wait for the disk.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/dialect/form/decode_limits.h"
#include "gateway/dialect/responses/response_items.h"
#include "gateway/session/conversation_store.h"

namespace kvgate::session {

class Conversations {
 public:
  // Both arguments must outlive it.
  Conversations(ConversationStore& store, const dialect::form::DecodeLimits& limits)
      : store_(store), limits_(limits) {}

  using Place = ConversationStore::Place;
  Result<std::string> Create(std::string_view tenant, std::string_view request_id,
                             std::string_view body);
  // All of these return kNotFound for an unknown conversation.
  Result<std::string> Get(const Place& place) const;
  Result<std::string> Update(const Place& place, std::string_view body);
  Result<std::string> Delete(const Place& place);
  Result<std::string> AddItems(const Place& place, std::string_view body);
  Result<std::string> ListItems(const Place& place, const dialect::responses::PageArgs& page) const;
  Result<std::string> GetItem(const Place& place, std::string_view item_id) const;
  Result<std::string> RemoveItem(const Place& place, std::string_view item_id);

 private:
  ConversationStore& store_;
  const dialect::form::DecodeLimits& limits_;
};

}  // namespace kvgate::session
