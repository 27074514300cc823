// GatewayKeys: who may use this gateway, and how much of it. Keys are held as SHA-256 digests;
// each comparison looks at all of them, whatever matches. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "gateway/config/config.h"
#include "gateway/access/access.h"

namespace kvgate::service {

class GatewayKeys {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Environment = std::function<std::string(const char* name)>;
  class Key;

  // kInvalidArgument: an unset variable, by the key's name.
  // Of `previous`, which may be null, it keeps those that are configured as they were, with what
  // they have used. `metrics` is the key that reads /metrics alone, where one is configured.
  static Result<std::unique_ptr<GatewayKeys>> Open(const std::vector<config::KeyConfig>& configs,
                                                   const Environment& environment,
                                                   const GatewayKeys* previous = nullptr,
                                                   const config::MetricsConfig& metrics = {});
  ~GatewayKeys();

  // No keys: everyone is let in.
  bool empty() const { return keys_.empty(); }
  // Null: nobody's.
  Key* Find(std::string_view api_key) const;
  bool has_metrics_key() const { return metrics_.has_value(); }
  bool IsMetricsKey(std::string_view api_key) const;

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
  // Whether it may use a model of that name.
  bool Serves(std::string_view model) const;
  bool serves_all() const;  // by the glob "*"

  struct Use {
    std::string_view model;      // empty: none is asked for
    bool model_unknown = false;  // one may be, but the body cannot be read
    double dollars_today = 0;    // spent before this request
    double dollars_month = 0;
    TimePoint now;
  };
  // Counts the request. kPermissionDenied: the model; kRateLimited: requests, tokens or dollars.
  // Minutes are rolling: what was used a minute ago is free again.
  Result<void> Admit(const Use& use);
  // Tokens are known only after the answer: they stop the requests that follow.
  void Spend(uint64_t tokens, TimePoint now);

 private:
  // A bucket that fills in a minute, and may be overdrawn.
  struct Bucket {
    double used = 0;
    TimePoint at{};
    void Refill(double per_minute, TimePoint now);
  };

  const config::KeyConfig config_;
  const PrefixDigest digest_;
  std::mutex mutex_;
  Bucket requests_;
  Bucket tokens_;
};

}  // namespace kvgate::service
