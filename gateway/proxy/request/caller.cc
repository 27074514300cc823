#include "gateway/proxy/request/caller.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gateway/local/prefix_service.h"
#include "gateway/service/prompts.h"

namespace kvgate::proxy::request {

using upstream::wire::FindHeader;
using upstream::wire::HeaderField;
using upstream::wire::HeaderFields;
using upstream::wire::SameName;

namespace {

constexpr std::string_view kKeyHeader = "x-kvgate-key";
constexpr std::string_view kAdminHeader = "x-kvgate-admin";

bool HasForwardingHeader(const HeaderFields& fields) {
  return std::any_of(fields.begin(), fields.end(), [](const HeaderField& field) {
    return access::IsForwardingHeader(field.name);
  });
}

}  // namespace

std::string_view ApiKeyOf(const HeaderFields& fields) {
  const std::string_view key = FindHeader(fields, "x-api-key");
  return key.empty() ? FindHeader(fields, "x-goog-api-key") : key;
}

std::string_view BearerOf(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size() ||
      !SameName(authorization.substr(0, kScheme.size()), kScheme)) {
    return "";
  }
  return authorization.substr(kScheme.size());
}

Caller::Caller(Args args, HeaderFields& fields)
    : targets_(std::move(args.targets)),
      api_key_(ApiKeyOf(fields)),
      authorization_(FindHeader(fields, "authorization")) {
  const access::GatewayKeys& keys = *targets_->keys;
  evidence_ = {.has_keys = !keys.empty(),
               .has_metrics_key = keys.has_metrics_key(),
               .is_loopback = args.is_loopback};
  // With keys configured, the origin of a request does not affect its role.
  if (keys.empty()) evidence_.is_forwarded = HasForwardingHeader(fields);
  bool is_known = true;  // stays true if no key is shown
  if (const std::string_view own = FindHeader(fields, kKeyHeader); !own.empty()) {
    is_known = TakeKey(own);
  } else if (!keys.empty() || keys.has_metrics_key()) {
    key_is_credential_ = TakeKey(api_key_) || TakeKey(BearerOf(authorization_));
    is_known = key_is_credential_ || (api_key_.empty() && authorization_.empty());
  }
  const std::string_view token = FindHeader(fields, kAdminHeader);
  if (!token.empty()) evidence_.shows_admin_token = access::IsSameSecret(token, args.admin_token);
  // A wrong admin token, or a wrong key if keys are configured, voids all other evidence such as
  // the address.
  const bool is_refused =
      (!is_known && evidence_.has_keys) || (!token.empty() && !evidence_.shows_admin_token);
  if (is_refused) {
    evidence_ = {.has_keys = true, .has_metrics_key = evidence_.has_metrics_key};
    key_ = nullptr;
  }
  std::erase_if(fields, [](const HeaderField& field) {
    return SameName(field.name, kKeyHeader) || SameName(field.name, kAdminHeader);
  });
  tenant_ = key_ != nullptr ? key_->name() : local::TenantOf(credential());
}

// Returns true if it is a key of this gateway.
bool Caller::TakeKey(std::string_view api_key) {
  const access::GatewayKeys& keys = *targets_->keys;
  if (access::GatewayKeys::Key* const found = keys.Find(api_key); found != nullptr) {
    key_ = found;
    evidence_.key = found->role();
  }
  if (keys.IsMetricsKey(api_key)) evidence_.shows_metrics_key = true;
  return key_ != nullptr || evidence_.shows_metrics_key;
}

Caller Caller::InBackground() const {
  Caller caller = *this;
  caller.identity_ = credential();
  caller.api_key_ = {};
  caller.authorization_ = {};
  return caller;
}

std::string Caller::credential() const {
  if (identity_) return *identity_;
  if (key_ != nullptr) return fmt::format("kvgate-key:{}", key_->name());
  // One key is one tenant, whichever header its client sends it in.
  const std::string_view key = api_key_.empty() ? BearerOf(authorization_) : api_key_;
  return key.empty() ? std::string(authorization_) : fmt::format("Bearer {}", key);
}

std::string_view Caller::provider_credential() const {
  if (key_is_credential_) return "";
  const std::string_view bearer = BearerOf(authorization_);
  // Both headers are passed on and the provider decides which one counts, so the more restrictive
  // one, a subscription's, is used here.
  return api_key_.empty() || service::IsSubscription(bearer, {}) ? bearer : api_key_;
}

std::string Caller::SentCredential(const upstream::Upstream* upstream) const {
  if (upstream != nullptr && !upstream->api_key().empty()) return upstream->api_key();
  return std::string(provider_credential());
}

Result<void> Caller::Admit(std::string_view model, bool is_unknown,
                           const upstream::ExchangeLog* log) {
  const int64_t now_us = WallClock::NowUs();
  const config::BudgetLimits& limits = targets_->budgets.LimitsOf(tenant_);
  std::vector<access::Budget> budgets;
  if (log != nullptr && limits != config::BudgetLimits()) {
    budgets = access::BudgetsOf(limits, log->Spent(tenant_), now_us);
  }
  if (key_ == nullptr) return access::CheckBudgets("This caller", budgets, now_us);
  return key_->Admit({.model = model,
                      .model_unknown = is_unknown,
                      .budgets = budgets,
                      .now = SteadyClock::now(),
                      .now_us = now_us});
}

std::function<bool(std::string_view)> Caller::ModelFilter() const {
  return [targets = targets_, key = key_](std::string_view model) {
    return key == nullptr || key->Serves(model);
  };
}

// Only admins may use the operator's credential for an unknown path; other callers need their own.
bool Caller::MaySendUnknown(const upstream::Upstream& upstream) const {
  if (!upstream.config().forward_unknown) return false;
  const bool has_own = upstream.api_key().empty() && !provider_credential().empty();
  return has_own || role() == access::CallerRole::kAdmin;
}

}  // namespace kvgate::proxy::request
