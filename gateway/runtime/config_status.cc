#include "gateway/runtime/config_status.h"

#include "base/clock.h"
#include "gateway/access/budget.h"

namespace kvgate::runtime {

ConfigStatus::ConfigStatus(config::Config as_read, std::string version)
    : as_read_(std::move(as_read)), version_(std::move(version)), loaded_us_(WallClock::NowUs()) {}

void ConfigStatus::OnReload(std::string version, std::string unread) {
  const std::lock_guard lock(mutex_);
  version_ = std::move(version);
  unread_ = std::move(unread);
  error_.clear();
  loaded_us_ = WallClock::NowUs();
  ++num_reloads_;
}

void ConfigStatus::OnFailedReload(const Error& error) {
  const std::lock_guard lock(mutex_);
  error_ = error.detail;
  ++num_failed_;
}

void ConfigStatus::WriteStats(dialect::form::JsonWriter& json) const {
  const std::lock_guard lock(mutex_);
  json.BeginObject().Key("version").String(version_);
  json.Key("loaded_at").String(access::IsoTime(loaded_us_));
  json.Key("reloads").Unsigned(num_reloads_).Key("failed_reloads").Unsigned(num_failed_);
  json.Key("error");
  if (error_.empty()) {
    json.Null();
  } else {
    json.String(error_);
  }
  json.Key("needs_start").String(unread_).EndObject();
}

void ConfigStatus::Collect(metrics::TextWriter& writer) const {
  const std::lock_guard lock(mutex_);
  writer.Family("kvgate_config_info", "gauge",
                "1, with the version of the configuration in force: gateways that do the same have "
                "the same.");
  writer.Sample("kvgate_config_info", {{"version", version_}}, uint64_t{1});
  writer.Family("kvgate_config_reloads_total", "counter",
                "Attempts to read the configuration again (SIGHUP), by result.");
  writer.Sample("kvgate_config_reloads_total", {{"result", "ok"}}, num_reloads_);
  writer.Sample("kvgate_config_reloads_total", {{"result", "failed"}}, num_failed_);
}

}  // namespace kvgate::runtime
