// TurnNames: replaces tenants, ids, sessions and contents in the row keys of turns by secrets
// derived from the directory's keyring. Whoever reads the disk can neither recognise a tenant nor
// test a guess of what was said. Cheap to construct; safe on any thread. The keyring must outlive
// it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/ids.h"
#include "base/seal.h"

namespace kvgate::store::meta {

// The first 16 bytes of a derived secret.
using TurnName = std::array<uint8_t, 16>;

class TurnNames {
 public:
  explicit TurnNames(const Keyring& ring) : ring_(ring) {}

  TurnName Tenant(std::string_view tenant) const;
  // Names depend on the tenant: the same id, session or content of another tenant gets another
  // name.
  TurnName Id(std::string_view tenant, std::string_view id) const;
  TurnName Session(std::string_view tenant, std::string_view session) const;
  TurnName Content(std::string_view tenant, const PrefixDigest& content) const;

 private:
  TurnName Of(std::string_view purpose, std::string_view tenant, std::string_view name) const;

  const Keyring& ring_;
};

}  // namespace kvgate::store::meta
