// Determines who is calling and checks what the caller may use.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/http/connection.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::http {
namespace {

namespace beast = boost::beast;

// Returns X for "Bearer X"; empty for other schemes.
std::string_view BearerOf(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size() ||
      !upstream::wire::SameName(authorization.substr(0, kScheme.size()), kScheme)) {
    return "";
  }
  return authorization.substr(kScheme.size());
}

}  // namespace

// Runs before anything else reads the head and removes the secrets that only this gateway may see
// from it, so that neither an upstream nor a record can get them.
void Connection::Identify() {
  key_ = nullptr;
  key_is_credential_ = false;
  const access::GatewayKeys& keys = *targets_->keys;
  evidence_ = {.has_keys = !keys.empty(),
               .has_metrics_key = keys.has_metrics_key(),
               .is_loopback = is_loopback_};
  // With keys configured, the origin of a request does not affect its role.
  if (keys.empty()) evidence_.is_forwarded = HasForwardingHeader();
  bool is_known = true;  // stays true if no key is shown
  if (const std::string_view own = Header("x-kvgate-key"); !own.empty()) {
    is_known = TakeKey(own);
  } else if (!keys.empty() || keys.has_metrics_key()) {
    const std::string_view key = Header("x-api-key");
    const std::string_view bearer = BearerOf(Header("authorization"));
    key_is_credential_ = TakeKey(key) || TakeKey(bearer);
    is_known = key_is_credential_ || (key.empty() && Header("authorization").empty());
  }
  const std::string_view token = Header("x-kvgate-admin");
  if (!token.empty()) {
    evidence_.shows_admin_token = access::IsSameSecret(token, context_.options.admin_token);
  }
  // A wrong admin token, or a wrong key if keys are configured, voids all other evidence such as
  // the address.
  const bool is_refused =
      (!is_known && evidence_.has_keys) || (!token.empty() && !evidence_.shows_admin_token);
  if (is_refused) evidence_ = {.has_keys = true, .has_metrics_key = evidence_.has_metrics_key};
  if (is_refused) key_ = nullptr;
  parser_->get().erase("x-kvgate-key");
  parser_->get().erase("x-kvgate-admin");
}

bool Connection::HasForwardingHeader() const {
  const auto& fields = parser_->get();
  return std::any_of(fields.begin(), fields.end(), [](const auto& field) {
    const beast::string_view name = field.name_string();
    return access::IsForwardingHeader({name.data(), name.size()});
  });
}

// Returns true if it is a key of this gateway.
bool Connection::TakeKey(std::string_view api_key) {
  const access::GatewayKeys& keys = *targets_->keys;
  if (access::GatewayKeys::Key* const found = keys.Find(api_key); found != nullptr) {
    key_ = found;
    evidence_.key = found->role();
  }
  if (keys.IsMetricsKey(api_key)) evidence_.shows_metrics_key = true;
  return key_ != nullptr || evidence_.shows_metrics_key;
}

access::Caller Connection::WhoCalls() {
  return {.role = access::RoleOf(evidence_), .credential = Credential(), .tenant = Tenant()};
}

std::string Connection::Credential() const {
  if (key_ != nullptr) return fmt::format("kvgate-key:{}", key_->name());
  const std::string_view key = Header("x-api-key");
  return std::string(key.empty() ? Header("authorization") : key);
}

std::string_view Connection::ProviderCredential() const {
  if (key_is_credential_) return "";
  const std::string_view key = Header("x-api-key");
  const std::string_view bearer = BearerOf(Header("authorization"));
  // Both headers are passed on and the provider decides which one counts, so the more restrictive
  // one, a subscription's, is used here.
  return key.empty() || service::IsSubscription(bearer, {}) ? bearer : key;
}

const std::string& Connection::Tenant() {
  if (!tenant_) tenant_ = key_ != nullptr ? key_->name() : local::TenantOf(Credential());
  return *tenant_;
}

Result<void> Connection::Admit(std::string_view model) {
  const bool unreadable = !parser_->get().body().empty() && !scan_.readable;
  return AdmitModel(model, unreadable || (needs_model_ && model.empty()));
}

Result<void> Connection::AdmitModel(std::string_view model, bool is_unknown) {
  if (key_ == nullptr) return {};
  upstream::Spending spending;
  if (context_.options.exchange_log != nullptr) {
    spending = context_.options.exchange_log->Spent(key_->name());
  }
  return key_->Admit({.model = model,
                      .model_unknown = is_unknown,
                      .dollars_today = spending.dollars_today,
                      .dollars_month = spending.dollars_this_month,
                      .now = std::chrono::steady_clock::now()});
}

bool Connection::MayUse(std::string_view model) const {
  return key_ == nullptr || key_->Serves(model);
}

// Like MayUse, for use after this request has ended; it keeps the key alive.
std::function<bool(std::string_view)> Connection::ModelFilter() const {
  return [targets = targets_, key = key_](std::string_view model) {
    return key == nullptr || key->Serves(model);
  };
}

// Only admins may use the operator's credential for an unknown path; other callers need their own.
bool Connection::MaySendUnknown(const upstream::Upstream& upstream) const {
  if (!upstream.config().forward_unknown) return false;
  const bool has_own = upstream.api_key().empty() && !ProviderCredential().empty();
  return has_own || access::RoleOf(evidence_) == access::CallerRole::kAdmin;
}

}  // namespace kvgate::http
