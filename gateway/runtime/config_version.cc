#include "gateway/runtime/config_version.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"

namespace kvgate::runtime {
namespace {

constexpr size_t kDigits = 12;

template <typename Number>
std::string Text(const Number& value) {
  return fmt::format("{}", value);
}

// The length stands in front, so that no value can look like the next line.
std::string Text(const std::string& value) { return fmt::format("{}:{}", value.size(), value); }

std::string Text(const std::filesystem::path& path) { return Text(path.string()); }

template <typename Element>
std::string Text(const std::vector<Element>& values) {
  std::string text = fmt::format("[{}]", values.size());
  for (const Element& value : values) text += Text(value) + ",";
  return text;
}

template <typename Value>
std::string Text(const std::optional<Value>& value) {
  return value ? "is " + Text(*value) : "none";
}

// A list whose order means nothing.
std::vector<std::string> Sorted(std::vector<std::string> values) {
  std::sort(values.begin(), values.end());
  return values;
}

// One table: a line for each value that is not the default.
template <typename Table>
class Lines {
 public:
  Lines(std::string_view head, const Table& table)
      : text_(fmt::format("[{}]\n", head)), of_(table) {}

  template <typename Value>
  Lines& Add(std::string_view key, Value Table::*member) {
    return AddValue(key, of_.*member, Table().*member);
  }
  Lines& AddSet(std::string_view key, std::vector<std::string> Table::*member) {
    return AddValue(key, Sorted(of_.*member), Sorted(Table().*member));
  }
  Lines& AddBudgets(const config::BudgetLimits& budgets) {
    const config::BudgetLimits unset;
    AddValue("dollars_per_day", budgets.dollars_per_day, unset.dollars_per_day);
    AddValue("dollars_per_month", budgets.dollars_per_month, unset.dollars_per_month);
    AddValue("tokens_per_day", budgets.tokens_per_day, unset.tokens_per_day);
    return AddValue("tokens_per_month", budgets.tokens_per_month, unset.tokens_per_month);
  }
  std::string Take() { return std::move(text_); }

 private:
  template <typename Value>
  Lines& AddValue(std::string_view key, const Value& value, const Value& unset) {
    if (!(value == unset)) text_ += fmt::format("{}={}\n", key, Text(value));
    return *this;
  }

  std::string text_;
  const Table& of_;
};

std::string ServerText(const config::ServerConfig& server) {
  using T = config::ServerConfig;
  return Lines("server", server)
      .Add("threads", &T::threads)
      .Add("tls_min_version", &T::tls_min_version)
      .AddSet("allowed_hosts", &T::allowed_hosts)
      .Add("known_providers", &T::known_providers)
      .Add("unready_seconds", &T::unready_seconds)
      .Add("drain_seconds", &T::drain_seconds)
      .Add("log_level", &T::log_level)
      .Add("log_format", &T::log_format)
      .Take();
}

std::string EngineText(const config::EngineConfig& engine) {
  using T = config::EngineConfig;
  return Lines("engine", engine)
      .Add("model", &T::model)
      .Add("embedding_model", &T::embedding_model)
      .Add("embedding_context", &T::embedding_context)
      .Add("embedding_threads", &T::embedding_threads)
      .Add("embedding_queue", &T::embedding_queue)
      .Add("device", &T::device)
      .Add("numerics", &T::numerics)
      .Add("context", &T::context)
      .Add("default_max_tokens", &T::default_max_tokens)
      .Add("threads", &T::threads)
      .Add("cpu_target", &T::cpu_target)
      .Add("kv_dtype", &T::kv_dtype)
      .Add("context_policy", &T::context_policy)
      .Add("context_policy_tokens", &T::context_policy_tokens)
      .Add("kv_memory", &T::kv_memory_bytes)
      .Add("grammar_memory", &T::grammar_memory_bytes)
      .Add("chat_template", &T::chat_template)
      .Add("chat_format", &T::chat_format)
      .Add("step_tokens", &T::step_tokens)
      .Add("mixed_step_tokens", &T::mixed_step_tokens)
      .Add("step_ms", &T::step_ms)
      .Add("short_prompt_tokens", &T::short_prompt_tokens)
      .Add("ttft_slo_ms", &T::ttft_slo_ms)
      .Add("tenant_kv_share", &T::tenant_kv_share)
      .Add("sequences", &T::sequences)
      .Add("queue", &T::queue)
      .Add("io_threads", &T::io_threads)
      .Add("mode", &T::mode)
      .AddSet("rules_off", &T::rules_off)
      .Take();
}

std::string CacheText(const config::CacheConfig& cache) {
  using T = config::CacheConfig;
  return Lines("cache", cache)
      .Add("host_memory", &T::host_memory_bytes)
      .Add("write_back", &T::write_back_bytes)
      .Add("prompt_memory", &T::prompt_memory_bytes)
      .Take();
}

std::string StoreText(const config::StoreConfig& store) {
  using T = config::StoreConfig;
  return Lines("store", store)
      .Add("disk", &T::disk)
      .Add("disk_cache", &T::disk_cache_bytes)
      .Add("write_budget", &T::write_budget_bytes)
      .Add("flush_interval_ms", &T::flush_interval_ms)
      .Add("sync", &T::sync)
      .Add("turns", &T::turns)
      .Add("turns_retention", &T::turns_retention_seconds)
      .Add("turns_bytes", &T::turns_bytes)
      .Add("prompts", &T::prompts)
      .Add("prompts_retention", &T::prompts_retention_seconds)
      .Add("prompts_bytes", &T::prompts_bytes)
      .Add("tenant_share", &T::tenant_share)
      .Add("timeout_seconds", &T::timeout_seconds)
      .Add("secret_env", &T::secret_env)
      .Add("shared", &T::shared)
      .Add("shared_password_env", &T::shared_password_env)
      .Add("shared_ca_file", &T::shared_ca_file)
      .Add("shared_ttl", &T::shared_ttl_seconds)
      .Add("shared_write_budget", &T::shared_write_budget_bytes)
      .Take();
}

std::string SessionsText(const config::SessionsConfig& sessions) {
  using T = config::SessionsConfig;
  return Lines("sessions", sessions)
      .Add("mode", &T::mode)
      .Add("window_hard", &T::window_hard)
      .Add("window_high", &T::window_high)
      .Add("window_low", &T::window_low)
      .Add("keep_system", &T::keep_system)
      .Add("keep_first_turns", &T::keep_first_turns)
      .Add("wait_seconds_max", &T::wait_seconds_max)
      .Add("summary_tokens_max", &T::summary_tokens_max)
      .Add("summary_model", &T::summary_model)
      .Add("summary_prompt", &T::summary_prompt)
      .Add("retrieval", &T::retrieval)
      .Add("retrieval_tokens", &T::retrieval_tokens)
      .Add("retrieval_model", &T::retrieval_model)
      .Add("tool_results", &T::tool_results)
      .Add("tool_result_tokens", &T::tool_result_tokens)
      .Add("summary_wait_seconds", &T::summary_wait_seconds)
      .Add("summary_api_key", &T::summary_api_key)
      .Add("idle_compact", &T::idle_compact)
      .Take();
}

std::string LedgerText(const config::LedgerConfig& ledger) {
  using T = config::LedgerConfig;
  return Lines("ledger", ledger)
      .Add("prices", &T::prices)
      .Add("records", &T::records)
      .Add("retention_days", &T::retention_days)
      .Add("segments", &T::segments)
      .Add("excerpts", &T::excerpts)
      .Take();
}

std::string MetricsText(const config::MetricsConfig& metrics) {
  using T = config::MetricsConfig;
  return Lines("metrics", metrics)
      .Add("key_env", &T::key_env)
      .Add("sha256", &T::sha256)
      .AddSet("compat", &T::compat)
      .Take();
}

std::string TelemetryText(const config::TelemetryConfig& telemetry) {
  using T = config::TelemetryConfig;
  return Lines("telemetry", telemetry)
      .Add("endpoint", &T::endpoint)
      .Add("headers_env", &T::headers_env)
      .Add("service_name", &T::service_name)
      .Add("ca_file", &T::ca_file)
      .Add("spans", &T::spans)
      .Add("metrics", &T::metrics)
      .Add("interval_seconds", &T::interval_seconds)
      .Add("timeout_seconds", &T::timeout_seconds)
      .Add("queue", &T::queue)
      .Take();
}

std::string BudgetsText(const config::BudgetsConfig& budgets) {
  using T = config::BudgetsConfig;
  return Lines("budgets", budgets)
      .AddBudgets(budgets.tenant)
      .Add("thresholds", &T::thresholds)
      .Add("webhook", &T::webhook)
      .Add("webhook_secret_env", &T::webhook_secret_env)
      .Add("webhook_ca_file", &T::webhook_ca_file)
      .Add("webhook_timeout_seconds", &T::webhook_timeout_seconds)
      .Take();
}

std::string LimitsText(const config::LimitsConfig& limits) {
  using T = config::LimitsConfig;
  return Lines("limits", limits)
      .Add("body", &T::body_bytes)
      .Add("bodies", &T::bodies_bytes)
      .Add("tenant_bodies_share", &T::tenant_bodies_share)
      .Add("import", &T::import_bytes)
      .Add("headers", &T::header_bytes)
      .Add("connections", &T::connections)
      .Add("header_timeout_seconds", &T::header_timeout_seconds)
      .Add("body_timeout_seconds", &T::body_timeout_seconds)
      .Add("body_bytes_per_second_min", &T::body_bytes_per_second_min)
      .Add("idle_timeout_seconds", &T::idle_timeout_seconds)
      .Add("write_timeout_seconds", &T::write_timeout_seconds)
      .Add("json_depth", &T::json_depth)
      .Take();
}

std::string UpstreamText(const config::UpstreamConfig& upstream) {
  using T = config::UpstreamConfig;
  return Lines("upstream", upstream)
      .Add("name", &T::name)
      .Add("dialect", &T::dialect)
      .Add("provider", &T::provider)
      .Add("base_url", &T::base_url)
      .AddSet("models", &T::models)
      .AddSet("endpoints", &T::endpoints)
      .Add("mode", &T::mode)
      .AddSet("rules_off", &T::rules_off)
      .Add("cache_ttl", &T::cache_ttl)
      .Add("context_tokens", &T::context_tokens)
      .Add("api_key_env", &T::api_key_env)
      .Add("ca_file", &T::ca_file)
      .Add("connect_timeout_ms", &T::connect_timeout_ms)
      .Add("first_byte_timeout_seconds", &T::first_byte_timeout_seconds)
      .Add("idle_timeout_seconds", &T::idle_timeout_seconds)
      .Add("keep_alive_seconds", &T::keep_alive_seconds)
      .Add("connections", &T::connections)
      .Add("retry", &T::retry)
      .Add("retries", &T::retries)
      .Add("breaker_failures", &T::breaker_failures)
      .Add("breaker_seconds", &T::breaker_seconds)
      .Add("forward_unknown", &T::forward_unknown)
      .Take();
}

std::string RouteText(const config::RouteConfig& route) {
  using T = config::RouteConfig;
  return Lines("route", route)
      .Add("name", &T::name)
      .AddSet("models", &T::models)
      .Add("targets", &T::targets)
      .Add("fallback", &T::fallback)
      .Add("balance", &T::balance)
      .Add("affinity_seconds", &T::affinity_seconds)
      .Add("load_factor", &T::load_factor)
      .Add("local_tokens_max", &T::local_tokens_max)
      .Add("single_flight_ms", &T::single_flight_ms)
      .Take();
}

std::string KeyText(const config::KeyConfig& key) {
  using T = config::KeyConfig;
  return Lines("key", key)
      .Add("name", &T::name)
      .Add("key_env", &T::key_env)
      .Add("sha256", &T::sha256)
      .Add("role", &T::role)
      .AddSet("models", &T::models)
      .Add("mode", &T::mode)
      .AddSet("rules_off", &T::rules_off)
      .Add("default_max_tokens", &T::default_max_tokens)
      .Add("output_tokens_max", &T::output_tokens_max)
      .Add("prompt_tokens_max", &T::prompt_tokens_max)
      .Add("requests_per_minute", &T::requests_per_minute)
      .Add("tokens_per_minute", &T::tokens_per_minute)
      .AddBudgets(key.budgets)
      .Take();
}

// The text stands for the file: its path says nothing, and its text may change.
std::string PromptText(const session::prompts::PromptVersion& prompt) {
  return fmt::format("[prompt]\nname={}\nversion={}\ntext={}\nshare={}\n", Text(prompt.id.name),
                     Text(prompt.id.version), Text(prompt.text), Text(prompt.share));
}

}  // namespace

std::string VersionOf(const config::Config& config,
                      std::span<const session::prompts::PromptVersion> prompts) {
  std::string text = ServerText(config.server) + EngineText(config.engine) +
                     CacheText(config.cache) + StoreText(config.store) +
                     SessionsText(config.sessions) + LedgerText(config.ledger) +
                     MetricsText(config.metrics) + TelemetryText(config.telemetry) +
                     BudgetsText(config.budgets) + LimitsText(config.limits);
  // The first that matches is taken, so their order counts.
  for (const config::UpstreamConfig& upstream : config.upstreams) text += UpstreamText(upstream);
  for (const config::RouteConfig& route : config.routes) text += RouteText(route);
  std::vector<std::string> unordered;
  for (const config::KeyConfig& key : config.keys) unordered.push_back(KeyText(key));
  for (const auto& prompt : prompts) unordered.push_back(PromptText(prompt));
  for (const std::string& element : Sorted(std::move(unordered))) text += element;
  return ToHex(ThreadSha256().Update(text).Finish().bytes).substr(0, kDigits);
}

}  // namespace kvgate::runtime
