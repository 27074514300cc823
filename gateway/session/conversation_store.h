// ConversationStore keeps conversations of the Responses dialect durably: items that are added and
// removed, and metadata. Each is a session, of which it writes the entries (log/kept_turn.h). It is
// thread-safe and may wait for the disk. Tenants share nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/responses/response_items.h"
#include "gateway/session/sessions.h"
#include "store/meta/turn_store.h"

namespace kvgate::session {

struct Conversation {
  std::string id;
  std::string tip;  // its newest entry; a response in it continues from here
  int64_t created_unix = 0;
  std::string metadata;  // JSON
  std::vector<dialect::responses::ResponsesItem> items;
};

class ConversationStore {
 public:
  // `turns` may be null, in which case no conversation is kept. Both must outlive this object.
  ConversationStore(store::meta::TurnStore* turns, Sessions& sessions)
      : turns_(turns), sessions_(sessions) {}

  // The conversation that a change applies to; a `request_id` is never used twice.
  struct Place {
    std::string_view tenant;
    std::string_view id;
    std::string_view request_id = {};
  };

  // The conversation's id is derived from the request's. Returns kUnsupported if turns are not
  // kept.
  struct CreateArgs {
    std::string_view tenant;
    std::string_view request_id;
    std::string metadata;  // JSON; empty: none
    std::span<const dialect::responses::ResponsesItem> items;
  };
  Result<std::string> Create(const CreateArgs& args);
  // All of these return kNotFound for an unknown conversation.
  Result<Conversation> Load(std::string_view tenant, std::string_view id) const;
  // Returns its turns, as far back as a prompt needs them.
  Result<std::vector<log::LoggedTurn>> Context(std::string_view tenant, std::string_view id) const;
  Result<void> SetMetadata(const Place& place, std::string metadata);
  // What else is known of items that an answer ends.
  struct Answered {
    store::meta::TurnItem note;  // log::ToNote
    store::meta::TurnTokens tokens;
  };
  Result<void> Append(const Place& place, std::span<const dialect::responses::ResponsesItem> items,
                      std::optional<Answered> answered = {});
  Result<void> Remove(const Place& place, std::string_view item_id);
  static Error MissingItem(std::string_view id, std::string_view item_id);
  // Deletes the conversation with its items; responses made in it stay.
  Result<void> Delete(std::string_view tenant, std::string_view id);

  // Locks the conversation for one answer until the result is released. Returns an error with
  // source kLockedSource if another answer holds it. Waits for an event that is being added to it.
  Result<std::shared_ptr<void>> Lock(const Place& place);

 private:
  Result<std::string> Tip(std::string_view tenant, std::string_view id) const;
  struct Change {
    std::string_view prefix;  // of the turn's id
    std::vector<store::meta::TurnItem> items;
    store::meta::TurnTokens tokens = {};
  };
  Result<void> Add(const Place& place, Change change);

  store::meta::TurnStore* const turns_;
  Sessions& sessions_;
};

}  // namespace kvgate::session
