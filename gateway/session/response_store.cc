#include "gateway/session/response_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/dialect/form/completion.h"
#include "gateway/session/log/kept_turn.h"

namespace kvgate::session {

using log::AddTurnItems;
using log::PayloadOf;
using store::meta::Turn;

namespace {

constexpr size_t kShownIdBytes = 80;

Error Missing(std::string_view id) {
  return MakeError(ErrorCode::kNotFound, "service.responses",
                   fmt::format("Response with id '{}' not found.", id.substr(0, kShownIdBytes)));
}

}  // namespace

// A quarter of the space for a turn is reserved for the answer.
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
  const std::string tenant = args.tenant;
  const std::string id = args.id;
  return log_.AppendKept(
      {.tenant = tenant, .key = id},
      {.id = std::move(args.id),
       .parent = std::move(args.parent),
       .tenant = std::move(args.tenant),
       .session = {},
       .items = {{.role = std::string(log::kInputRole), .payload = std::move(args.input)},
                 {.role = std::string(log::kResponseRole), .payload = std::move(args.response)},
                 std::move(args.note)},
       .tokens = args.tokens,
       .content = {}},
      args.follows_events);
}

Result<Turn> ResponseStore::Find(std::string_view tenant, std::string_view id) const {
  if (turns_ == nullptr || !id.starts_with(dialect::form::kResponsePrefix)) return Missing(id);
  log_.Refresh(tenant, id);
  Result<Turn> turn = turns_->Get(tenant, id);
  if (!turn && turn.error().code == ErrorCode::kNotFound) return Missing(id);
  return turn;
}

Result<std::string> ResponseStore::Get(std::string_view tenant, std::string_view id) const {
  KVGATE_TRY(const Turn turn, Find(tenant, id));
  return std::string(PayloadOf(turn, log::kResponseRole));
}

Result<std::vector<dialect::responses::ResponsesItem>> ResponseStore::Input(
    std::string_view tenant, std::string_view id) const {
  KVGATE_TRY(const Turn turn, Find(tenant, id));
  std::vector<dialect::responses::ResponsesItem> items;
  // Deleted turns of the conversation are missing from the list.
  if (const auto chain = turns_->Chain({.tenant = tenant, .id = id}); chain) {
    for (const Turn& before : *chain) {
      if (before.id != turn.id) KVGATE_TRY_VOID(AddTurnItems(before, items));
    }
  }
  KVGATE_TRY(const auto own, dialect::responses::ParseItems(PayloadOf(turn, log::kInputRole)));
  items.insert(items.end(), own.begin(), own.end());
  return items;
}

Result<void> ResponseStore::Delete(std::string_view tenant, std::string_view id) {
  KVGATE_TRY([[maybe_unused]] const Turn turn, Find(tenant, id));
  const Result<void> deleted = log_.RemoveKept(tenant, id);
  if (!deleted && deleted.error().code == ErrorCode::kNotFound) return Missing(id);
  return deleted;
}

Result<dialect::responses::ResponsesItem> ResponseStore::FindItem(std::string_view tenant,
                                                                  std::string_view item_id) const {
  const std::string_view request = dialect::responses::RequestOf(item_id);
  const Result<Turn> turn =
      Find(tenant, fmt::format("{}{}", dialect::form::kResponsePrefix, request));
  if (turn) {
    std::vector<dialect::responses::ResponsesItem> items;
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

Result<std::vector<log::LoggedTurn>> ResponseStore::Context(std::string_view tenant,
                                                            std::string_view id) const {
  const Error missing = MakeError(
      ErrorCode::kInvalidArgument, dialect::form::kPreviousResponseSource,
      fmt::format("Previous response with id '{}' not found.", id.substr(0, kShownIdBytes)),
      "previous_response_id");
  if (turns_ == nullptr || !id.starts_with(dialect::form::kResponsePrefix)) return missing;
  const log::SessionLog::Place place{.tenant = tenant, .key = id};
  const auto load = [&]() -> Result<std::vector<log::LoggedTurn>> {
    KVGATE_TRY(const log::SessionLog::Root root, log_.Find(place));
    KVGATE_TRY(const std::string newest, log_.NewestAfter(tenant, id));
    return log_.Load(place, root, newest, log::SessionLog::Reach::kPrompt);
  };
  Result<std::vector<log::LoggedTurn>> turns = load();
  if (turns) return turns;
  Error error = turns.error();
  if (error.code == ErrorCode::kNotFound) return missing;
  error.field = "previous_response_id";
  return error;
}

}  // namespace kvgate::session
