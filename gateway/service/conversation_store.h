// ConversationStore: conversations of the Responses dialect, durable: items that are added to and
// taken away, and metadata. Thread-safe; may wait for the disk. Nothing is shared between tenants.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/form/response_items.h"
#include "store/meta/turn_store.h"

namespace kvgate::service {

struct Conversation {
  std::string id;
  std::string tip;  // its newest turn: what a response in it goes on from
  int64_t created_unix = 0;
  std::string metadata;  // JSON
  std::vector<protocol::ResponsesItem> items;
};

class ConversationStore {
 public:
  // Null: there are none. It outlives this.
  explicit ConversationStore(store::TurnStore* turns) : turns_(turns) {}

  // What a change is made for; `request_id` is never used twice.
  struct Place {
    std::string_view tenant;
    std::string_view id;
    std::string_view request_id = {};
  };

  // Its id comes from the request's. kUnsupported: nothing is kept.
  struct CreateArgs {
    std::string_view tenant;
    std::string_view request_id;
    std::string metadata;  // JSON; empty: none
    std::span<const protocol::ResponsesItem> items;
  };
  Result<std::string> Create(const CreateArgs& args);
  // kNotFound, of all of these.
  Result<Conversation> Load(std::string_view tenant, std::string_view id) const;
  Result<void> SetMetadata(const Place& place, std::string metadata);
  Result<void> Append(const Place& place, std::span<const protocol::ResponsesItem> items);
  Result<void> Remove(const Place& place, std::string_view item_id);
  static Error MissingItem(std::string_view id, std::string_view item_id);
  // With its items. Responses in it stay.
  Result<void> Delete(std::string_view tenant, std::string_view id);

  // Of one answer at a time, until it is let go of. kLockedSource: somebody has it.
  Result<std::shared_ptr<void>> Lock(std::string_view tenant, std::string_view id);

 private:
  using Key = std::pair<std::string, std::string>;
  Result<std::string> Tip(std::string_view tenant, std::string_view id) const;
  struct Change {
    std::string_view prefix;  // of the turn's id
    std::string_view role;
    std::string payload;
  };
  Result<void> Add(const Place& place, Change change);

  store::TurnStore* const turns_;
  std::mutex mutex_;       // held by whoever changes one
  std::mutex lock_mutex_;  // of what follows
  std::set<Key> locked_;
};

}  // namespace kvgate::service
