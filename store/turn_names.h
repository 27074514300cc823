// TurnNames: what stands in the keys of turns' rows for tenants, ids, sessions and contents:
// secrets derived of the directory's keyring, so that whoever reads the disk can neither tell a
// tenant nor check a guess of what was said. Cheap to make; any thread. The keyring outlives it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <kvgate/ids.h>
#include "base/seal.h"

namespace kvgate::store {

// The first half of a derived secret.
using TurnName = std::array<uint8_t, 16>;

class TurnNames {
 public:
  explicit TurnNames(const Keyring& ring) : ring_(ring) {}

  TurnName Tenant(std::string_view tenant) const;
  // Of one tenant: another's of the same id, session or content is another name.
  TurnName Id(std::string_view tenant, std::string_view id) const;
  TurnName Session(std::string_view tenant, std::string_view session) const;
  TurnName Content(std::string_view tenant, const PrefixDigest& content) const;

 private:
  TurnName Of(std::string_view purpose, std::string_view tenant, std::string_view name) const;

  const Keyring& ring_;
};

}  // namespace kvgate::store
