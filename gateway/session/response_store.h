// ResponseStore keeps responses durably by their ids, each as an entry in the log of its session
// (log/kept_turn.h). A response can be continued by its id from the moment that its client has read
// it, and after a restart. It is thread-safe and may wait for the disk. Tenants share nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/responses/response_items.h"
#include "gateway/session/log/session_log.h"
#include "store/meta/turn_store.h"

namespace kvgate::session {

class ResponseStore {
 public:
  // `turns` may be null, in which case no response is kept or found. Both must outlive this object.
  ResponseStore(store::meta::TurnStore* turns, log::SessionLog& log) : turns_(turns), log_(log) {}

  // Returns true if new responses are kept.
  bool keeps() const { return turns_ != nullptr && turns_->enabled(); }
  // Returns kTooLarge if a response with an input of that size would not be kept. REQUIRES:
  // keeps().
  Result<void> CheckInput(uint64_t bytes) const;

  struct PutArgs {
    std::string id;
    std::string tenant;
    std::string parent;  // the turn that it continues; empty if it starts a chain
    std::string input;   // an array of items
    std::string response;
    store::meta::TurnItem note;  // log::ToNote
    store::meta::TurnTokens tokens;
    bool follows_events = false;  // as SessionLog::AppendKept
  };
  Result<void> Put(PutArgs args);

  // These four return kNotFound for an unknown id.
  Result<std::string> Get(std::string_view tenant, std::string_view id) const;
  // Returns the items that the response was made from, including those before its own input.
  Result<std::vector<dialect::responses::ResponsesItem>> Input(std::string_view tenant,
                                                               std::string_view id) const;
  Result<void> Delete(std::string_view tenant, std::string_view id);
  // Finds an item by the id that it has in a response.
  Result<dialect::responses::ResponsesItem> FindItem(std::string_view tenant,
                                                     std::string_view item_id) const;

  // Returns the turns up to a response, as far back as a prompt needs them. Returns
  // kInvalidArgument with source kPreviousResponseSource if the response or one before it is
  // missing; may return kTooLarge.
  Result<std::vector<log::LoggedTurn>> Context(std::string_view tenant, std::string_view id) const;

 private:
  Result<store::meta::Turn> Find(std::string_view tenant, std::string_view id) const;

  store::meta::TurnStore* const turns_;
  log::SessionLog& log_;
};

}  // namespace kvgate::session
