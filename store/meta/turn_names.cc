#include "store/meta/turn_names.h"

#include <algorithm>
#include <string>

#include "store/file/byte_codec.h"

namespace kvgate::store::meta {

// The tenant's size precedes it, so that no two pairs give the same text.
TurnName TurnNames::Of(std::string_view purpose, std::string_view tenant,
                       std::string_view name) const {
  std::string text;
  file::AppendText(text, tenant);
  text += name;
  const Keyring::Secret secret = ring_.Derive(purpose, text);
  TurnName out;
  std::copy_n(secret.begin(), out.size(), out.begin());
  return out;
}

TurnName TurnNames::Tenant(std::string_view tenant) const { return Of("turns.tenant", tenant, ""); }

TurnName TurnNames::Id(std::string_view tenant, std::string_view id) const {
  return Of("turns.id", tenant, id);
}

TurnName TurnNames::Session(std::string_view tenant, std::string_view session) const {
  return Of("turns.session", tenant, session);
}

TurnName TurnNames::Content(std::string_view tenant, const PrefixDigest& content) const {
  return Of("turns.content", tenant,
            {reinterpret_cast<const char*>(content.bytes.data()), content.bytes.size()});
}

}  // namespace kvgate::store::meta
