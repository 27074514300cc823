// The entries of a session's shared log, as store/FORMAT.md specifies them: a turn that was added,
// one that was deleted, or that all was. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/meta/turn_format.h"

namespace kvgate::session::log {

struct SharedEntry {
  enum class Kind : uint8_t { kTurn = 1, kDeleted = 2, kPurged = 3 } kind = Kind::kTurn;
  store::meta::Turn turn = {};  // of kDeleted only its id; its tenant and order are not said
};

std::string EncodeSharedEntry(const SharedEntry& entry);
// Returns nothing for bytes that are no entry, or one of a newer version.
std::optional<SharedEntry> DecodeSharedEntry(std::string_view bytes, std::string_view tenant);

}  // namespace kvgate::session::log
