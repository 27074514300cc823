#include "gateway/access/gateway_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/digest.h"
#include "gateway/upstream/body_scan.h"

namespace kvgate::access {
namespace {

PrefixDigest DigestOf(std::string_view api_key) { return ThreadSha256().Update(api_key).Finish(); }

// REQUIRES: 64 hex digits, which the configuration has checked.
PrefixDigest ParseDigest(std::string_view hex) {
  PrefixDigest digest;
  for (size_t i = 0; i < digest.bytes.size(); ++i) {
    std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, digest.bytes[i], 16);
  }
  return digest;
}

// The time it takes does not depend on the position of a difference.
bool Equal(const PrefixDigest& a, const PrefixDigest& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.bytes.size(); ++i) {
    difference |= static_cast<unsigned>(a.bytes[i] ^ b.bytes[i]);
  }
  return difference == 0;
}

// Returns the digest of the variable's value, or the configured digest if no variable is named.
Result<PrefixDigest> ReadDigest(std::string_view whose, const std::string& key_env,
                                std::string_view sha256,
                                const GatewayKeys::Environment& environment) {
  if (key_env.empty()) return ParseDigest(sha256);
  const std::string api_key = environment(key_env.c_str());
  if (!api_key.empty()) return DigestOf(api_key);
  return MakeError(
      ErrorCode::kInvalidArgument, "keys",
      fmt::format("{}: the environment variable {} (key_env) is not set", whose, key_env));
}

Error Limited(std::string detail, double seconds) {
  Error error = MakeError(ErrorCode::kRateLimited, "keys", std::move(detail));
  error.retry_after_seconds = std::max(1, static_cast<int>(std::ceil(seconds)));
  return error;
}

}  // namespace

GatewayKeys::~GatewayKeys() = default;

Result<std::unique_ptr<GatewayKeys>> GatewayKeys::Open(
    const std::vector<config::KeyConfig>& configs, const Environment& environment,
    const GatewayKeys* previous, const config::MetricsConfig& metrics) {
  std::unique_ptr<GatewayKeys> keys(new GatewayKeys);
  if (!metrics.key_env.empty() || !metrics.sha256.empty()) {
    KVGATE_TRY(keys->metrics_,
               ReadDigest("[metrics]", metrics.key_env, metrics.sha256, environment));
  }
  for (const config::KeyConfig& config : configs) {
    KVGATE_TRY(const PrefixDigest digest, ReadDigest(fmt::format("key '{}'", config.name),
                                                     config.key_env, config.sha256, environment));
    std::shared_ptr<Key> key;
    for (const auto& before : previous ? previous->keys_ : std::vector<std::shared_ptr<Key>>{}) {
      if (before->config() == config && before->digest() == digest) key = before;
    }
    keys->keys_.push_back(key ? std::move(key) : std::make_shared<Key>(config, digest));
  }
  return keys;
}

GatewayKeys::Key* GatewayKeys::Find(std::string_view api_key) const {
  if (api_key.empty()) return nullptr;
  const PrefixDigest digest = DigestOf(api_key);
  Key* found = nullptr;
  for (const auto& key : keys_) {
    if (Equal(key->digest(), digest)) found = key.get();
  }
  return found;
}

bool GatewayKeys::IsMetricsKey(std::string_view api_key) const {
  return metrics_ && !api_key.empty() && Equal(DigestOf(api_key), *metrics_);
}

bool GatewayKeys::Key::Serves(std::string_view model) const {
  return std::any_of(config_.models.begin(), config_.models.end(),
                     [&](const std::string& glob) { return upstream::GlobMatches(glob, model); });
}

bool GatewayKeys::Key::serves_all() const {
  return std::find(config_.models.begin(), config_.models.end(), "*") != config_.models.end();
}

void GatewayKeys::Key::Bucket::Refill(double per_minute, TimePoint now) {
  const double minutes = std::chrono::duration<double, std::ratio<60>>(now - at).count();
  used = std::max(0.0, used - per_minute * minutes);
  at = now;
}

Result<void> GatewayKeys::Key::Admit(const Use& use) {
  if (use.model_unknown && !serves_all()) {
    return MakeError(
        ErrorCode::kPermissionDenied, "keys",
        fmt::format("The key '{}' may use only some models, and the request does not show "
                    "which one this is.",
                    name()),
        "model");
  }
  if (!use.model.empty() && !Serves(use.model)) {
    return MakeError(ErrorCode::kPermissionDenied, "keys",
                     fmt::format("The key '{}' may not use the model '{}'.", name(), use.model),
                     "model");
  }
  KVGATE_TRY_VOID(CheckBudgets(fmt::format("The key '{}'", name()), use.budgets, use.now_us));
  const std::lock_guard lock(mutex_);
  taken_.was_asked = true;
  const auto per_minute = static_cast<double>(config_.requests_per_minute);
  const auto tokens_per_minute = static_cast<double>(config_.tokens_per_minute);
  Refill(use.now);
  if (tokens_per_minute > 0 && tokens_.used >= tokens_per_minute) {
    return Limited(fmt::format("The key '{}' has used its {} tokens per minute.", name(),
                               config_.tokens_per_minute),
                   (tokens_.used - tokens_per_minute) / tokens_per_minute * 60);
  }
  if (per_minute > 0 && requests_.used + 1 > per_minute) {
    return Limited(fmt::format("The key '{}' has made its {} requests per minute.", name(),
                               config_.requests_per_minute),
                   (requests_.used + 1 - per_minute) / per_minute * 60);
  }
  requests_.used += 1;
  taken_.counts.requests += 1;
  return {};
}

void GatewayKeys::Key::Refill(TimePoint now) {
  requests_.Refill(static_cast<double>(config_.requests_per_minute), now);
  tokens_.Refill(static_cast<double>(config_.tokens_per_minute), now);
}

void GatewayKeys::Key::Spend(uint64_t tokens, TimePoint now) {
  const std::lock_guard lock(mutex_);
  Refill(now);
  tokens_.used += static_cast<double>(tokens);
  taken_.counts.tokens += static_cast<double>(tokens);
}

GatewayKeys::Key::Taken GatewayKeys::Key::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(taken_, {});
}

void GatewayKeys::Key::AddOthers(const Counts& counts, TimePoint now) {
  const std::lock_guard lock(mutex_);
  Refill(now);
  requests_.used += counts.requests;
  tokens_.used += counts.tokens;
}

void GatewayKeys::Key::RaiseTo(const Counts& levels, TimePoint now) {
  const std::lock_guard lock(mutex_);
  Refill(now);
  requests_.used = std::max(requests_.used, levels.requests);
  tokens_.used = std::max(tokens_.used, levels.tokens);
}

GatewayKeys::Key::Counts GatewayKeys::Key::Levels(TimePoint now) {
  const std::lock_guard lock(mutex_);
  Refill(now);
  return {.requests = requests_.used, .tokens = tokens_.used};
}

}  // namespace kvgate::access
