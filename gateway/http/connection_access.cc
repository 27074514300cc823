// Who is calling, and whether they may.
#include <fmt/format.h>

#include <utility>

#include "gateway/http/connection.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::http {
namespace {

// "Bearer X" without its scheme.
std::string_view BearerOf(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size() ||
      !upstream::SameName(authorization.substr(0, kScheme.size()), kScheme)) {
    return "";
  }
  return authorization.substr(kScheme.size());
}

}  // namespace

bool Connection::Authenticate() {
  key_ = nullptr;
  key_is_credential_ = false;
  if (targets_->keys->empty()) return true;
  if (const std::string_view own = Header("x-kvgate-key"); !own.empty()) {
    key_ = targets_->keys->Find(own);
    return key_ != nullptr;
  }
  key_is_credential_ = true;
  key_ = targets_->keys->Find(Header("x-api-key"));
  if (key_ == nullptr) key_ = targets_->keys->Find(BearerOf(Header("authorization")));
  return key_ != nullptr;
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
  // Both pass on; which one counts is the provider's to say, so the one that binds more does here.
  return key.empty() || service::IsSubscription(bearer, {}) ? bearer : key;
}

const std::string& Connection::Tenant() {
  if (!tenant_) tenant_ = key_ != nullptr ? key_->name() : service::TenantOf(Credential());
  return *tenant_;
}

Result<void> Connection::Admit(std::string_view model) {
  if (key_ == nullptr) return {};
  upstream::Spending spending;
  if (context_.options.exchange_log != nullptr) {
    spending = context_.options.exchange_log->Spent(key_->name());
  }
  return key_->Admit({.model = model,
                      .model_unknown = !parser_->get().body().empty() && !scan_.readable,
                      .dollars_today = spending.dollars_today,
                      .dollars_month = spending.dollars_this_month,
                      .now = std::chrono::steady_clock::now()});
}

}  // namespace kvgate::http
