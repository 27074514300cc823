#include "gateway/session/response_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/protocol/form/completion.h"
#include "gateway/session/kept_items.h"

namespace kvgate::service {
namespace {

constexpr size_t kShownIdBytes = 80;

Error Missing(std::string_view id) {
  return MakeError(ErrorCode::kNotFound, "service.responses",
                   fmt::format("Response with id '{}' not found.", id.substr(0, kShownIdBytes)));
}

}  // namespace

// An answer may well be as long as what is left for it here.
Result<void> ResponseStore::CheckInput(uint64_t bytes) const {
  const uint64_t limit = turns_->turn_bytes_max() - turns_->turn_bytes_max() / 4;
  if (bytes <= limit) return {};
  return MakeError(ErrorCode::kTooLarge, "service.responses",
                   fmt::format("An input of {} bytes is too large to be stored, the limit is {}; "
                               "with \"store\": false it is answered.",
                               bytes, limit),
                   "input");
}

Result<void> ResponseStore::Put(PutArgs args) {
  return turns_->Append(
      {.id = std::move(args.id),
       .parent = std::move(args.parent),
       .tenant = std::move(args.tenant),
       .session = {},
       .items = {{.role = std::string(kInputRole), .payload = std::move(args.input)},
                 {.role = std::string(kResponseRole), .payload = std::move(args.response)}},
       .tokens = args.tokens,
       .content = {}});
}

Result<store::Turn> ResponseStore::Find(std::string_view tenant, std::string_view id) const {
  if (turns_ == nullptr || !id.starts_with(protocol::kResponsePrefix)) return Missing(id);
  Result<store::Turn> turn = turns_->Get(tenant, id);
  if (!turn && turn.error().code == ErrorCode::kNotFound) return Missing(id);
  return turn;
}

Result<std::string> ResponseStore::Get(std::string_view tenant, std::string_view id) const {
  KVGATE_TRY(const store::Turn turn, Find(tenant, id));
  return std::string(PayloadOf(turn, kResponseRole));
}

Result<std::vector<protocol::ResponsesItem>> ResponseStore::Input(std::string_view tenant,
                                                                  std::string_view id) const {
  KVGATE_TRY(const store::Turn turn, Find(tenant, id));
  std::vector<protocol::ResponsesItem> items;
  // What has been deleted of the conversation since is not there any more.
  if (const auto chain = turns_->Chain({.tenant = tenant, .id = id}); chain) {
    for (const store::Turn& before : *chain) {
      if (before.id != turn.id) KVGATE_TRY_VOID(AddTurnItems(before, items));
    }
  }
  KVGATE_TRY(const auto own, protocol::ParseItems(PayloadOf(turn, kInputRole)));
  items.insert(items.end(), own.begin(), own.end());
  return items;
}

Result<void> ResponseStore::Delete(std::string_view tenant, std::string_view id) {
  KVGATE_TRY([[maybe_unused]] const store::Turn turn, Find(tenant, id));
  const Result<void> deleted = turns_->Delete(tenant, id);
  if (!deleted && deleted.error().code == ErrorCode::kNotFound) return Missing(id);
  return deleted;
}

Result<protocol::ResponsesItem> ResponseStore::FindItem(std::string_view tenant,
                                                        std::string_view item_id) const {
  const std::string_view request = protocol::RequestOf(item_id);
  const Result<store::Turn> turn =
      Find(tenant, fmt::format("{}{}", protocol::kResponsePrefix, request));
  if (turn) {
    std::vector<protocol::ResponsesItem> items;
    KVGATE_TRY_VOID(AddTurnItems(*turn, items));
    const auto found = std::find_if(items.begin(), items.end(),
                                    [&](const auto& item) { return item.id == item_id; });
    if (found != items.end()) return std::move(*found);
  } else if (turn.error().code != ErrorCode::kNotFound) {
    return turn.error();
  }
  return MakeError(ErrorCode::kNotFound, "service.responses",
                   fmt::format("Item with id '{}' not found. Items are not persisted when `store` "
                               "is set to false.",
                               item_id.substr(0, kShownIdBytes)));
}

Result<std::vector<protocol::ResponsesItem>> ResponseStore::Context(std::string_view tenant,
                                                                    std::string_view id) const {
  const Error missing = MakeError(
      ErrorCode::kInvalidArgument, protocol::kPreviousResponseSource,
      fmt::format("Previous response with id '{}' not found.", id.substr(0, kShownIdBytes)),
      "previous_response_id");
  if (turns_ == nullptr || !id.starts_with(protocol::kResponsePrefix)) return missing;
  const Result<std::vector<store::Turn>> chain = turns_->Chain({.tenant = tenant, .id = id});
  if (!chain) {
    Error error = chain.error();
    if (error.code == ErrorCode::kNotFound) return missing;
    error.field = "previous_response_id";
    return error;
  }
  std::vector<protocol::ResponsesItem> items;
  for (const store::Turn& turn : *chain) KVGATE_TRY_VOID(AddTurnItems(turn, items));
  return items;
}

}  // namespace kvgate::service
