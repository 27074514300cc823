#include "gateway/session/kept_items.h"

#include <iterator>

#include "gateway/protocol/responses.h"

namespace kvgate::session {
namespace {

void Append(std::vector<protocol::form::ResponsesItem> more,
            std::vector<protocol::form::ResponsesItem>& items) {
  items.insert(items.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

}  // namespace

std::string_view PayloadOf(const store::meta::Turn& turn, std::string_view role) {
  for (const store::meta::TurnItem& item : turn.items) {
    if (item.role == role) return item.payload;
  }
  return "";
}

Result<void> AddTurnItems(const store::meta::Turn& turn,
                          std::vector<protocol::form::ResponsesItem>& items) {
  for (const std::string_view role : {kInputRole, kItemsRole}) {
    const std::string_view payload = PayloadOf(turn, role);
    if (payload.empty()) continue;
    KVGATE_TRY(std::vector<protocol::form::ResponsesItem> more,
               protocol::form::ParseItems(payload));
    Append(std::move(more), items);
  }
  if (const std::string_view response = PayloadOf(turn, kResponseRole); !response.empty()) {
    KVGATE_TRY(std::vector<protocol::form::ResponsesItem> more, protocol::OutputOf(response));
    Append(std::move(more), items);
  }
  if (const std::string_view id = PayloadOf(turn, kRemovedRole); !id.empty()) {
    std::erase_if(items, [&](const protocol::form::ResponsesItem& item) { return item.id == id; });
  }
  return {};
}

}  // namespace kvgate::session
