#include "gateway/session/conversation_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "gateway/dialect/form/completion.h"
#include "gateway/session/log/kept_turn.h"

namespace kvgate::session {
namespace {

constexpr std::string_view kSource = "service.conversations";
constexpr size_t kShownIdBytes = 80;
constexpr int64_t kMicroseconds = 1'000'000;
// The longest that an answer waits for an event that is added to its conversation.
constexpr std::chrono::seconds kEventTime{10};

Error Missing(std::string_view id) {
  return MakeError(
      ErrorCode::kNotFound, kSource,
      fmt::format("Conversation with id '{}' not found.", id.substr(0, kShownIdBytes)));
}

store::meta::TurnItem TurnItemOf(std::string_view role, std::string payload) {
  return {.role = std::string(role), .payload = std::move(payload)};
}

// Wakes a thread that waits for a session to be free.
struct Free {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_free = false;
};

}  // namespace

Result<std::string> ConversationStore::Create(const CreateArgs& args) {
  if (turns_ == nullptr || !turns_->Stats().enabled) {
    return MakeError(ErrorCode::kUnsupported, kSource,
                     "Conversations need stored turns, which this server does not keep "
                     "(store.turns).");
  }
  std::string id = fmt::format("{}{}", dialect::responses::kConversationPrefix, args.request_id);
  KVGATE_TRY_VOID(sessions_.session_log().AppendKept(
      {.tenant = args.tenant, .key = id},
      {.id = id,
       .parent = {},
       .tenant = std::string(args.tenant),
       .session = id,
       .items = {TurnItemOf(log::kMetadataRole, args.metadata.empty() ? "{}" : args.metadata),
                 TurnItemOf(log::kItemsRole, dialect::responses::ToArray(args.items))},
       .tokens = {},
       .content = {}}));
  return id;
}

Result<std::string> ConversationStore::Tip(std::string_view tenant, std::string_view id) const {
  Result<std::string> tip = sessions_.session_log().Tip({.tenant = tenant, .key = id});
  if (!tip && tip.error().code == ErrorCode::kNotFound) return Missing(id);
  return tip;
}

Result<Conversation> ConversationStore::Load(std::string_view tenant, std::string_view id) const {
  Conversation conversation{.id = std::string(id), .tip = {}, .metadata = {}, .items = {}};
  KVGATE_TRY(conversation.tip, Tip(tenant, id));
  const auto chain = turns_->Chain({.tenant = tenant, .id = conversation.tip});
  if (!chain && chain.error().code == ErrorCode::kNotFound) return Missing(id);
  if (!chain) return chain.error();
  conversation.created_unix = chain->front().created_us / kMicroseconds;
  for (const store::meta::Turn& turn : *chain) {
    const std::string_view metadata = log::PayloadOf(turn, log::kMetadataRole);
    if (!metadata.empty()) conversation.metadata = metadata;
    KVGATE_TRY_VOID(log::AddTurnItems(turn, conversation.items));
  }
  return conversation;
}

Result<std::vector<log::LoggedTurn>> ConversationStore::Context(std::string_view tenant,
                                                                std::string_view id) const {
  KVGATE_TRY(const std::string tip, Tip(tenant, id));
  const log::SessionLog& kept = sessions_.session_log();
  const log::SessionLog::Place place{.tenant = tenant, .key = id};
  KVGATE_TRY(const log::SessionLog::Root root, kept.Find(place));
  auto turns = kept.Load(place, root, tip, log::SessionLog::Reach::kPrompt);
  if (!turns && turns.error().code == ErrorCode::kNotFound) return Missing(id);
  return turns;
}

Result<void> ConversationStore::Add(const Place& place, Change change) {
  const auto make = [&](const std::string&) -> Result<store::meta::Turn> {
    return store::meta::Turn{.id = fmt::format("{}_kv{}", change.prefix, place.request_id),
                             .parent = {},
                             .tenant = std::string(place.tenant),
                             .session = std::string(place.id),
                             .items = change.items,
                             .tokens = change.tokens,
                             .content = {}};
  };
  const Result<void> added =
      sessions_.session_log().AppendAtTip({.tenant = place.tenant, .key = place.id}, make);
  if (!added && added.error().code == ErrorCode::kNotFound) return Missing(place.id);
  return added;
}

Result<void> ConversationStore::SetMetadata(const Place& place, std::string metadata) {
  return Add(place,
             {.prefix = "cmeta", .items = {TurnItemOf(log::kMetadataRole, std::move(metadata))}});
}

Result<void> ConversationStore::Append(const Place& place,
                                       std::span<const dialect::responses::ResponsesItem> items,
                                       std::optional<Answered> answered) {
  Change change{.prefix = "citems",
                .items = {TurnItemOf(log::kItemsRole, dialect::responses::ToArray(items))}};
  if (answered) {
    change.items.push_back(std::move(answered->note));
    change.tokens = answered->tokens;
  }
  return Add(place, std::move(change));
}

Error ConversationStore::MissingItem(std::string_view id, std::string_view item_id) {
  return MakeError(ErrorCode::kNotFound, kSource,
                   fmt::format("Item with id '{}' not found in conversation with id '{}'.",
                               item_id.substr(0, kShownIdBytes), id.substr(0, kShownIdBytes)));
}

Result<void> ConversationStore::Remove(const Place& place, std::string_view item_id) {
  KVGATE_TRY(const Conversation conversation, Load(place.tenant, place.id));
  const auto& items = conversation.items;
  if (std::none_of(items.begin(), items.end(),
                   [&](const auto& item) { return item.id == item_id; })) {
    return MissingItem(place.id, item_id);
  }
  return Add(place,
             {.prefix = "cdel", .items = {TurnItemOf(log::kRemovedRole, std::string(item_id))}});
}

Result<void> ConversationStore::Delete(std::string_view tenant, std::string_view id) {
  const Result<void> removed =
      sessions_.session_log().RemoveConversation({.tenant = tenant, .key = id});
  if (!removed && removed.error().code == ErrorCode::kNotFound) return Missing(id);
  return removed;
}

Result<std::shared_ptr<void>> ConversationStore::Lock(const Place& place) {
  const auto until = std::chrono::steady_clock::now() + kEventTime;
  while (true) {
    const auto free = std::make_shared<Free>();
    log::SessionLocks::Outcome outcome =
        sessions_.TryLock({.tenant = place.tenant,
                           .key = place.id,
                           .turn = log::TurnIdOf(place.request_id),
                           .on_free = [free] {
                             const std::lock_guard lock(free->mutex);
                             free->is_free = true;
                             free->changed.notify_all();
                           }});
    if (outcome.lock) return std::move(outcome.lock);
    std::unique_lock lock(free->mutex);
    const bool has_come =
        outcome.is_brief && free->changed.wait_until(lock, until, [&] { return free->is_free; });
    if (has_come) continue;
    return MakeError(ErrorCode::kUnavailable, dialect::form::kLockedSource,
                     "Another process is currently operating on this conversation. Please retry in "
                     "a few seconds.",
                     "conversation");
  }
}

}  // namespace kvgate::session
