// ResponseStore: responses by their ids, durable. What a response went on from is found by its id
// the moment that its client has read it, and after a restart.
// Thread-safe; may wait for the disk. Nothing is shared between tenants.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/form/response_items.h"
#include "store/meta/turn_store.h"

namespace kvgate::service {

class ResponseStore {
 public:
  // Null: nothing is kept, and nothing found. It outlives this.
  explicit ResponseStore(store::TurnStore* turns) : turns_(turns) {}

  // Whether new ones are kept.
  bool keeps() const { return turns_ != nullptr && turns_->enabled(); }
  // kTooLarge: it would not be kept.
  Result<void> CheckInput(uint64_t bytes) const;

  struct PutArgs {
    std::string id;
    std::string tenant;
    std::string parent;  // the turn that it goes on from; empty: none
    std::string input;   // an array of items
    std::string response;
    store::TurnTokens tokens;
  };
  Result<void> Put(PutArgs args);

  // kNotFound, of these four.
  Result<std::string> Get(std::string_view tenant, std::string_view id) const;
  // The items that it was made from, those before its own input included.
  Result<std::vector<protocol::ResponsesItem>> Input(std::string_view tenant,
                                                     std::string_view id) const;
  Result<void> Delete(std::string_view tenant, std::string_view id);
  // An item of a response, by the id that it has there.
  Result<protocol::ResponsesItem> FindItem(std::string_view tenant, std::string_view item_id) const;

  // All items up to the end of a response. kInvalidArgument with kPreviousResponseSource: it, or
  // one before it, is not there. kTooLarge.
  Result<std::vector<protocol::ResponsesItem>> Context(std::string_view tenant,
                                                       std::string_view id) const;

 private:
  Result<store::Turn> Find(std::string_view tenant, std::string_view id) const;

  store::TurnStore* const turns_;
};

}  // namespace kvgate::service
