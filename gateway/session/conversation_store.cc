#include "gateway/session/conversation_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/protocol/form/completion.h"
#include "gateway/session/kept_items.h"

namespace kvgate::session {
namespace {

constexpr std::string_view kSource = "service.conversations";
constexpr size_t kShownIdBytes = 80;
constexpr int64_t kMicroseconds = 1'000'000;

Error Missing(std::string_view id) {
  return MakeError(
      ErrorCode::kNotFound, kSource,
      fmt::format("Conversation with id '{}' not found.", id.substr(0, kShownIdBytes)));
}

store::meta::TurnItem TurnItemOf(std::string_view role, std::string payload) {
  return {.role = std::string(role), .payload = std::move(payload)};
}

}  // namespace

Result<std::string> ConversationStore::Create(const CreateArgs& args) {
  if (turns_ == nullptr || !turns_->Stats().enabled) {
    return MakeError(ErrorCode::kUnsupported, kSource,
                     "Conversations need stored turns, which this server does not keep "
                     "(store.turns).");
  }
  std::string id = fmt::format("{}{}", protocol::form::kConversationPrefix, args.request_id);
  KVGATE_TRY_VOID(turns_->Append(
      {.id = id,
       .parent = {},
       .tenant = std::string(args.tenant),
       .session = id,
       .items = {TurnItemOf(kMetadataRole, args.metadata.empty() ? "{}" : args.metadata),
                 TurnItemOf(kItemsRole, protocol::form::ToArray(args.items))},
       .tokens = {},
       .content = {}}));
  return id;
}

Result<std::string> ConversationStore::Tip(std::string_view tenant, std::string_view id) const {
  if (turns_ == nullptr || !id.starts_with(protocol::form::kConversationPrefix)) return Missing(id);
  KVGATE_TRY(store::meta::TurnPage page,
             turns_->List({.tenant = tenant, .session = id, .limit = 1}));
  if (page.turns.empty()) return Missing(id);
  return std::move(page.turns.front().id);
}

Result<Conversation> ConversationStore::Load(std::string_view tenant, std::string_view id) const {
  Conversation conversation{.id = std::string(id), .tip = {}, .metadata = {}, .items = {}};
  KVGATE_TRY(conversation.tip, Tip(tenant, id));
  const auto chain = turns_->Chain({.tenant = tenant, .id = conversation.tip});
  if (!chain && chain.error().code == ErrorCode::kNotFound) return Missing(id);
  if (!chain) return chain.error();
  conversation.created_unix = chain->front().created_us / kMicroseconds;
  for (const store::meta::Turn& turn : *chain) {
    const std::string_view metadata = PayloadOf(turn, kMetadataRole);
    if (!metadata.empty()) conversation.metadata = metadata;
    KVGATE_TRY_VOID(AddTurnItems(turn, conversation.items));
  }
  return conversation;
}

Result<void> ConversationStore::Add(const Place& place, Change change) {
  const std::lock_guard lock(mutex_);
  KVGATE_TRY(std::string tip, Tip(place.tenant, place.id));
  return turns_->Append({.id = fmt::format("{}_kv{}", change.prefix, place.request_id),
                         .parent = std::move(tip),
                         .tenant = std::string(place.tenant),
                         .session = std::string(place.id),
                         .items = {TurnItemOf(change.role, std::move(change.payload))},
                         .tokens = {},
                         .content = {}});
}

Result<void> ConversationStore::SetMetadata(const Place& place, std::string metadata) {
  return Add(place, {.prefix = "cmeta", .role = kMetadataRole, .payload = std::move(metadata)});
}

Result<void> ConversationStore::Append(const Place& place,
                                       std::span<const protocol::form::ResponsesItem> items) {
  return Add(place,
             {.prefix = "citems", .role = kItemsRole, .payload = protocol::form::ToArray(items)});
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
  return Add(place, {.prefix = "cdel", .role = kRemovedRole, .payload = std::string(item_id)});
}

Result<void> ConversationStore::Delete(std::string_view tenant, std::string_view id) {
  const std::lock_guard lock(mutex_);
  KVGATE_TRY([[maybe_unused]] const std::string tip, Tip(tenant, id));
  KVGATE_TRY([[maybe_unused]] const uint64_t num_turns, turns_->PurgeSession(tenant, id));
  return {};
}

Result<std::shared_ptr<void>> ConversationStore::Lock(std::string_view tenant,
                                                      std::string_view id) {
  Key key(tenant, id);
  const std::lock_guard lock(lock_mutex_);
  if (!locked_.insert(key).second) {
    return MakeError(ErrorCode::kUnavailable, protocol::form::kLockedSource,
                     "Another process is currently operating on this conversation. Please retry in "
                     "a few seconds.",
                     "conversation");
  }
  return std::shared_ptr<void>(nullptr, [this, key = std::move(key)](void*) {
    const std::lock_guard guard(lock_mutex_);
    locked_.erase(key);
  });
}

}  // namespace kvgate::session
