// ConfigStatus: which configuration is in force, since when, and what became of attempts to change
// it, for /kvgate/v1/stats and /metrics. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.h"
#include "gateway/config/config.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/metrics/registry.h"

namespace kvgate::runtime {

class ConfigStatus {
 public:
  // `as_read` is the configuration of the start, before a device has filled in its defaults.
  ConfigStatus(config::Config as_read, std::string version);

  // What a later configuration is compared with.
  const config::Config& as_read() const { return as_read_; }

  // `unread` names the tables that differ and wait for a start; mostly empty.
  void OnReload(std::string version, std::string unread);
  void OnFailedReload(const Error& error);

  // Writes an object.
  void WriteStats(dialect::form::JsonWriter& json) const;
  void Collect(metrics::TextWriter& writer) const;

 private:
  const config::Config as_read_;
  mutable std::mutex mutex_;
  std::string version_;
  int64_t loaded_us_;
  uint64_t num_reloads_ = 0;
  uint64_t num_failed_ = 0;
  std::string error_;   // of the last reload; empty: it succeeded, or there was none
  std::string unread_;  // of the last one that succeeded
};

}  // namespace kvgate::runtime
