// GatewayKeys holds who may use this gateway, and how much of it. Keys are held as SHA-256 digests;
// each lookup compares with all of them, so that its time does not show which one matches.
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "gateway/access/access.h"
#include "gateway/access/budget.h"
#include "gateway/config/config.h"

namespace kvgate::access {

class GatewayKeys {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Environment = std::function<std::string(const char* name)>;
  class Key;

  // Keeps those keys of `previous` (may be null) whose configuration is unchanged, together with
  // their usage so far. `metrics` may configure a key that reads /metrics only. Returns
  // kInvalidArgument naming the key if its environment variable is not set.
  static Result<std::unique_ptr<GatewayKeys>> Open(const std::vector<config::KeyConfig>& configs,
                                                   const Environment& environment,
                                                   const GatewayKeys* previous = nullptr,
                                                   const config::MetricsConfig& metrics = {});
  ~GatewayKeys();

  // Without keys everyone is let in.
  bool empty() const { return keys_.empty(); }
  // Returns null if no key matches.
  Key* Find(std::string_view api_key) const;
  bool has_metrics_key() const { return metrics_.has_value(); }
  bool IsMetricsKey(std::string_view api_key) const;
  const std::vector<std::shared_ptr<Key>>& all() const { return keys_; }

 private:
  GatewayKeys() = default;
  std::optional<PrefixDigest> metrics_;
  std::vector<std::shared_ptr<Key>> keys_;
};

class GatewayKeys::Key {
 public:
  Key(config::KeyConfig config, const PrefixDigest& digest)
      : config_(std::move(config)), digest_(digest) {}

  const std::string& name() const { return config_.name; }
  const PrefixDigest& digest() const { return digest_; }
  const config::KeyConfig& config() const { return config_; }
  CallerRole role() const { return ParseRole(config_.role); }
  // Returns true if the key may use a model of that name.
  bool Serves(std::string_view model) const;
  bool serves_all() const;  // true if its globs include "*"

  struct Use {
    std::string_view model;                // empty if the request asks for none
    bool model_unknown = false;            // the body may name one but cannot be read
    std::span<const Budget> budgets = {};  // with what was used of them before this request
    TimePoint now = {};
    int64_t now_us = 0;  // the time of day, by which budgets renew
  };
  // Counts the request. Returns kPermissionDenied for a model that the key may not use, and
  // kRateLimited if its budgets, requests or tokens are used up. Minute limits refill continuously.
  Result<void> Admit(const Use& use);
  // Counts the tokens of an answer. They are known only after it, so they limit the requests that
  // follow.
  void Spend(uint64_t tokens, TimePoint now);

  // True if its requests or tokens a minute are limited.
  bool is_limited() const {
    return config_.requests_per_minute > 0 || config_.tokens_per_minute > 0;
  }
  // What counts against the limits a minute: a number of each, or how full both buckets are.
  struct Counts {
    double requests = 0;
    double tokens = 0;
  };
  struct Taken {
    Counts counts = {};
    bool was_asked = false;  // some request came, be it refused
  };
  // Returns what was admitted and spent here since the last call, for other gateways.
  Taken Take();
  // Counts what others have admitted and spent, as if it had been here and now.
  void AddOthers(const Counts& counts, TimePoint now);
  // Fills the buckets at least so far.
  void RaiseTo(const Counts& levels, TimePoint now);
  Counts Levels(TimePoint now);

 private:
  // A bucket that drains at its limit per minute and may be overdrawn.
  struct Bucket {
    double used = 0;
    TimePoint at{};
    void Refill(double per_minute, TimePoint now);
  };
  void Refill(TimePoint now);  // REQUIRES: mutex_ is held

  const config::KeyConfig config_;
  const PrefixDigest digest_;
  std::mutex mutex_;
  Bucket requests_;
  Bucket tokens_;
  Taken taken_;  // since Take
};

}  // namespace kvgate::access
