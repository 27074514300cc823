// SealedSummary: the summary of a conversation as its client carries it, in place of what it stands
// for. Only gateways with the same secret can read it, for the same tenant, so that any of them
// goes on after a loss of state; another tenant's, or one that was changed, is refused. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/seal.h"

namespace kvgate::session::compaction {

// What stands in front of the item, where its client sends that too.
enum class Covers : uint8_t {
  kAll,          // the summary stands for all of it
  kBesidesUser,  // what the user said stays; the summary stands for the rest
};

struct SealedSummary {
  std::string text = {};
  Covers covers = Covers::kAll;
  friend bool operator==(const SealedSummary&, const SealedSummary&) = default;
};

// How what Seal returns begins: "kvg", and the version of what follows.
inline constexpr std::string_view kMark = "kvg1.";
// True if a gateway has sealed it, be it of this version or a later one.
bool IsOurs(std::string_view sealed);

// Returns printable ASCII.
std::string Seal(const Keyring& ring, std::string_view tenant, const SealedSummary& summary);
// Fails with kInvalidArgument, in words that tell a client what to do, if it cannot be read here.
Result<SealedSummary> Open(const Keyring& ring, std::string_view tenant, std::string_view sealed);

}  // namespace kvgate::session::compaction
