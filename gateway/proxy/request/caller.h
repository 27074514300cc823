// Caller: who sends a request, found from its head, and what that caller may use.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/access/access.h"
#include "gateway/access/gateway_keys.h"
#include "gateway/proxy/request/targets.h"
#include "gateway/upstream/exchange_observer.h"
#include "gateway/upstream/upstream.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::proxy::request {

// The key in x-api-key or, as Gemini's clients send it, x-goog-api-key; empty: none.
std::string_view ApiKeyOf(const upstream::wire::HeaderFields& fields);
// Returns X for "Bearer X"; empty for other schemes.
std::string_view BearerOf(std::string_view authorization);

class Caller {
 public:
  struct Args {
    std::shared_ptr<const Targets> targets;
    std::string_view admin_token;  // empty: none is accepted
    bool is_loopback = false;
  };
  // Reads `fields` before anything else does, and removes the secrets from them that only this
  // gateway may see, so that neither an upstream nor a record can get them. The values of the
  // fields must outlive the caller.
  Caller(Args args, upstream::wire::HeaderFields& fields);

  const access::CallerEvidence& evidence() const { return evidence_; }
  access::CallerRole role() const { return access::RoleOf(evidence_); }
  // The caller's gateway key; null without one. It lives as long as the targets.
  access::GatewayKeys::Key* key() const { return key_; }
  std::shared_ptr<access::GatewayKeys::Key> shared_key() const {
    return std::shared_ptr<access::GatewayKeys::Key>(targets_, key_);
  }
  const config::KeyConfig* key_config() const {
    return key_ == nullptr ? nullptr : &key_->config();
  }
  // The gateway key was sent as a provider's credential is, so it must not be sent on.
  bool key_is_credential() const { return key_is_credential_; }
  // Identifies the caller: the gateway key's name, else the credential as sent.
  std::string credential() const;
  // The credential meant for a provider, as sent and without its scheme; empty if there is none.
  std::string_view provider_credential() const;
  // The credential that `upstream` gets for this caller; empty if it gets none.
  std::string SentCredential(const upstream::Upstream* upstream) const;
  // The gateway key's name, else a hash of the credential; empty if the caller sent neither.
  const std::string& tenant() const { return tenant_; }
  access::Caller who() const {
    return {.role = role(), .credential = credential(), .tenant = tenant_};
  }

  // The same caller for work that goes on after the request: who it is and what it may use stay,
  // the credential that was sent for a provider is forgotten.
  Caller InBackground() const;

  // Counts a request against the limits of the key, if there is one; an error if it exceeds them,
  // or if a budget of the tenant is used up. `is_unknown`: the body may name a model but cannot be
  // read. `log` knows what was spent; it may be null.
  Result<void> Admit(std::string_view model, bool is_unknown, const upstream::ExchangeLog* log);
  bool MayUse(std::string_view model) const { return key_ == nullptr || key_->Serves(model); }
  // Like MayUse, for use after the request has ended; it keeps the key alive.
  std::function<bool(std::string_view)> ModelFilter() const;
  // True if requests for unknown paths may go to `upstream` for this caller.
  bool MaySendUnknown(const upstream::Upstream& upstream) const;

 private:
  bool TakeKey(std::string_view api_key);

  std::shared_ptr<const Targets> targets_;
  access::GatewayKeys::Key* key_ = nullptr;
  bool key_is_credential_ = false;
  access::CallerEvidence evidence_;
  std::string_view api_key_;        // of x-api-key or x-goog-api-key
  std::string_view authorization_;  // as sent
  std::string tenant_;
  std::optional<std::string> identity_;  // in the background: credential()
};

}  // namespace kvgate::proxy::request
