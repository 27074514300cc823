#include "store/meta/turn_check.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace kvgate::store::meta {
namespace {

constexpr std::string_view kSource = "store.turns";

Error Wrong(std::string field, std::string detail) {
  return MakeError(ErrorCode::kInvalidArgument, kSource, std::move(detail), std::move(field));
}

}  // namespace

uint64_t PayloadBytes(const Turn& turn) {
  uint64_t bytes = 0;
  for (const TurnItem& item : turn.items) bytes += item.payload.size();
  return bytes;
}

Result<void> CheckTurn(const Turn& turn, uint64_t bytes_max) {
  if (turn.id.empty()) return Wrong("id", "A turn needs an id.");
  for (const auto& [field, text] : {std::pair<const char*, const std::string&>("id", turn.id),
                                    {"parent", turn.parent},
                                    {"tenant", turn.tenant},
                                    {"session", turn.session}}) {
    if (text.size() <= kTurnTextMax) continue;
    return Wrong(field, fmt::format("The {} of a turn has {} bytes; the limit is {}.", field,
                                    text.size(), kTurnTextMax));
  }
  if (turn.items.empty() || turn.items.size() > kTurnItemsMax) {
    return Wrong("items", fmt::format("A turn has 1 to {} items, not {}.", kTurnItemsMax,
                                      turn.items.size()));
  }
  for (const TurnItem& item : turn.items) {
    if (!item.role.empty() && item.role.size() <= kTurnTextMax) continue;
    return Wrong("role", fmt::format("The role of an item has 1 to {} bytes, not {}.", kTurnTextMax,
                                     item.role.size()));
  }
  const TurnTokens& tokens = turn.tokens;
  if (tokens.input < 0 || tokens.cached < 0 || tokens.output < 0) {
    return Wrong("tokens", "The token counts of a turn are not negative.");
  }
  const uint64_t bytes = PayloadBytes(turn);
  if (bytes <= bytes_max) return {};
  return MakeError(ErrorCode::kTooLarge, kSource,
                   fmt::format("The turn has {} bytes; the limit is {}.", bytes, bytes_max),
                   "items");
}

}  // namespace kvgate::store::meta
