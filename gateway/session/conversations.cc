#include "gateway/session/conversations.h"

#include <fmt/format.h>

#include "gateway/dialect/responses/prompt_builder.h"
#include "gateway/dialect/responses/responses.h"

namespace kvgate::session {
namespace {

using dialect::responses::ConversationBody;
using dialect::responses::ResponsesItem;

std::string Describe(const Conversation& conversation) {
  return dialect::responses::EncodeConversation({.id = conversation.id,
                                                 .created_unix = conversation.created_unix,
                                                 .metadata = conversation.metadata});
}

}  // namespace

Result<std::string> Conversations::Create(std::string_view tenant, std::string_view request_id,
                                          std::string_view body) {
  KVGATE_TRY(ConversationBody wanted, dialect::responses::DecodeConversation(
                                          {.body = body, .request_id = request_id}, limits_));
  dialect::responses::PromptBuilder check(limits_);
  KVGATE_TRY_VOID(check.Add(wanted.items, "items"));
  KVGATE_TRY(const std::string id, store_.Create({.tenant = tenant,
                                                  .request_id = request_id,
                                                  .metadata = std::move(wanted.metadata),
                                                  .items = wanted.items}));
  return Get({.tenant = tenant, .id = id});
}

Result<std::string> Conversations::Get(const Place& place) const {
  KVGATE_TRY(const Conversation conversation, store_.Load(place.tenant, place.id));
  return Describe(conversation);
}

Result<std::string> Conversations::Update(const Place& place, std::string_view body) {
  KVGATE_TRY(ConversationBody wanted, dialect::responses::DecodeConversation(
                                          {.body = body, .request_id = place.request_id}, limits_));
  if (wanted.metadata.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "service.conversations",
                     "Missing required parameter: 'metadata'.", "metadata");
  }
  KVGATE_TRY_VOID(store_.SetMetadata(place, std::move(wanted.metadata)));
  return Get(place);
}

Result<std::string> Conversations::Delete(const Place& place) {
  KVGATE_TRY_VOID(store_.Delete(place.tenant, place.id));
  return dialect::responses::EncodeDeleted(place.id, "conversation.deleted");
}

Result<std::string> Conversations::AddItems(const Place& place, std::string_view body) {
  KVGATE_TRY(const ConversationBody wanted,
             dialect::responses::DecodeConversation({.body = body, .request_id = place.request_id},
                                                    limits_));
  if (wanted.items.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "service.conversations",
                     "Missing required parameter: 'items'.", "items");
  }
  KVGATE_TRY(const Conversation conversation, store_.Load(place.tenant, place.id));
  dialect::responses::PromptBuilder check(limits_);
  KVGATE_TRY_VOID(check.Add(conversation.items, "conversation"));
  KVGATE_TRY_VOID(check.Add(wanted.items, "items"));
  KVGATE_TRY_VOID(store_.Append(place, wanted.items));
  return dialect::responses::EncodeItemList(wanted.items, false);
}

Result<std::string> Conversations::ListItems(const Place& place,
                                             const dialect::responses::PageArgs& page) const {
  KVGATE_TRY(const Conversation conversation, store_.Load(place.tenant, place.id));
  return dialect::responses::EncodeItemPage(conversation.items, page);
}

Result<std::string> Conversations::GetItem(const Place& place, std::string_view item_id) const {
  KVGATE_TRY(Conversation conversation, store_.Load(place.tenant, place.id));
  for (ResponsesItem& item : conversation.items) {
    if (item.id == item_id) return std::move(item.json);
  }
  return ConversationStore::MissingItem(place.id, item_id);
}

Result<std::string> Conversations::RemoveItem(const Place& place, std::string_view item_id) {
  KVGATE_TRY_VOID(store_.Remove(place, item_id));
  return Get(place);
}

}  // namespace kvgate::session
