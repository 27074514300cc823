#include "gateway/config/config.h"

// Exceptions are off, so parsing returns a result.
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <variant>

#include "gateway/config/elements.h"
#include "gateway/config/keys.h"
#include "gateway/config/nearest.h"
#include "gateway/config/value.h"

namespace kvgate::config {
namespace {

using Setter = std::optional<std::string> (*)(const Value& value, Config& config);

std::optional<std::string> SetListen(const Value& value, Config& config) {
  if (auto problem = SetString(value, config.server.listen)) return problem;
  const Result<HostPort> parsed = ParseHostPort(config.server.listen);
  if (!parsed) return parsed.error().detail;
  return std::nullopt;
}

std::optional<std::string> SetPrices(const Value& value, Config& config) {
  std::string text;
  if (auto problem = SetString(value, text)) return problem;
  config.ledger.prices = text;
  return std::nullopt;
}

std::optional<std::string> SetDataDir(const Value& value, Config& config) {
  std::string text;
  if (auto problem = SetString(value, text)) return problem;
  config.store.data_dir = text;
  return std::nullopt;
}

constexpr std::string_view kTlsVersions[] = {"1.2", "1.3"};
constexpr std::string_view kLogLevels[] = {"debug", "info", "warning", "error"};
constexpr std::string_view kLogFormats[] = {"text", "json"};
constexpr std::string_view kDevices[] = {"auto", "cpu", "cuda"};
constexpr std::string_view kCpuTargets[] = {"auto", "amx",  "avx512_vnni", "avx512",
                                            "avx2", "sse4", "neon",        "emu128"};
constexpr std::string_view kNumerics[] = {"invariant", "fast"};
constexpr std::string_view kKvDtypes[] = {"f32", "f16", "bf16", "fp8_e4m3", "q8_0", "q4_0"};
constexpr std::string_view kContextPolicies[] = {"none", "sliding_window", "attention_sink",
                                                 "least_attended"};
constexpr std::string_view kSessionModes[] = {"summary", "hard", "off"};
constexpr std::string_view kIdleChoices[] = {"off", "auto"};
constexpr std::string_view kToolResults[] = {"whole", "stub"};
constexpr std::string_view kSummaryKeys[] = {"own", "caller"};
constexpr std::string_view kMetricsCompat[] = {"vllm"};
constexpr int64_t kTokensMax = 1 << 30;
constexpr uint64_t kMebibyte = uint64_t{1} << 20;

struct Key {
  std::string_view table;
  std::string_view name;
  Setter set;
};

constexpr Key kKeys[] = {
    {"server", "listen", SetListen},
    {"server", "threads",
     [](const Value& v, Config& c) { return SetInteger(v, 1, 256, c.server.threads); }},
    {"server", "tls_cert",
     [](const Value& v, Config& c) { return SetString(v, c.server.tls_cert); }},
    {"server", "tls_key", [](const Value& v, Config& c) { return SetString(v, c.server.tls_key); }},
    {"server", "tls_min_version",
     [](const Value& v, Config& c) {
       return SetChoice(v, kTlsVersions, c.server.tls_min_version);
     }},
    {"server", "allowed_hosts",
     [](const Value& v, Config& c) { return SetStrings(v, c.server.allowed_hosts); }},
    {"server", "known_providers",
     [](const Value& v, Config& c) { return SetBool(v, c.server.known_providers); }},
    {"server", "unready_seconds",
     [](const Value& v, Config& c) { return SetInteger(v, 0, 3600, c.server.unready_seconds); }},
    {"server", "drain_seconds",
     [](const Value& v, Config& c) {
       return SetInteger(v, 0, kDaySeconds, c.server.drain_seconds);
     }},
    {"server", "log_level",
     [](const Value& v, Config& c) { return SetChoice(v, kLogLevels, c.server.log_level); }},
    {"server", "log_format",
     [](const Value& v, Config& c) { return SetChoice(v, kLogFormats, c.server.log_format); }},
    {"engine", "model", [](const Value& v, Config& c) { return SetString(v, c.engine.model); }},
    {"engine", "embedding_model",
     [](const Value& v, Config& c) { return SetString(v, c.engine.embedding_model); }},
    {"engine", "embedding_context",
     [](const Value& v, Config& c) {
       return SetInteger(v, 0, 1 << 20, c.engine.embedding_context);
     }},
    {"engine", "embedding_threads",
     [](const Value& v, Config& c) { return SetInteger(v, 0, 1024, c.engine.embedding_threads); }},
    {"engine", "embedding_queue",
     [](const Value& v, Config& c) { return SetInteger(v, 1, 1 << 20, c.engine.embedding_queue); }},
    {"engine", "device",
     [](const Value& v, Config& c) { return SetChoice(v, kDevices, c.engine.device); }},
    {"engine", "numerics",
     [](const Value& v, Config& c) { return SetChoice(v, kNumerics, c.engine.numerics); }},
    {"engine", "context",
     [](const Value& v, Config& c) { return SetInteger(v, 0, 1 << 24, c.engine.context); }},
    {"engine", "default_max_tokens",
     [](const Value& v, Config& c) {
       return SetInteger(v, 0, 1 << 24, c.engine.default_max_tokens);
     }},
    {"engine", "threads",
     [](const Value& v, Config& c) { return SetInteger(v, 0, 1024, c.engine.threads); }},
    {"engine", "cpu_target",
     [](const Value& v, Config& c) { return SetChoice(v, kCpuTargets, c.engine.cpu_target); }},
    {"engine", "kv_dtype",
     [](const Value& v, Config& c) { return SetChoice(v, kKvDtypes, c.engine.kv_dtype); }},
    {"engine", "context_policy",
     [](const Value& v, Config& c) {
       return SetChoice(v, kContextPolicies, c.engine.context_policy);
     }},
    {"engine", "context_policy_tokens",
     [](const Value& v, Config& c) {
       return SetInteger(v, 0, 1 << 24, c.engine.context_policy_tokens);
     }},
    {"engine", "kv_memory",
     [](const Value& v, Config& c) { return SetBytes(v, kMebibyte, c.engine.kv_memory_bytes); }},
    {"engine", "grammar_memory",
     [](const Value& v, Config& c) {
       return SetBytes(v, 16 * kMebibyte, c.engine.grammar_memory_bytes);
     }},
    {"engine", "chat_template",
     [](const Value& v, Config& c) { return SetString(v, c.engine.chat_template); }},
    {"engine", "chat_format",
     [](const Value& v, Config& c) { return SetString(v, c.engine.chat_format); }},
    {"engine", "step_tokens",
     [](const Value& v, Config& c) { return SetInteger(v, 32, 1 << 16, c.engine.step_tokens); }},
    {"engine", "mixed_step_tokens",
     [](const Value& v, Config& c) {
       return SetInteger(v, 32, 1 << 16, c.engine.mixed_step_tokens);
     }},
    {"engine", "step_ms",
     [](const Value& v, Config& c) { return SetInteger(v, 1, 3'600'000, c.engine.step_ms); }},
    {"engine", "short_prompt_tokens",
     [](const Value& v, Config& c) {
       return SetInteger(v, 1, 1 << 24, c.engine.short_prompt_tokens);
     }},
    {"engine", "ttft_slo_ms",
     [](const Value& v, Config& c) {
       return SetInteger(v, 0, 1000 * kDaySeconds, c.engine.ttft_slo_ms);
     }},
    {"engine", "tenant_kv_share",
     [](const Value& v, Config& c) { return SetNumber(v, 0.01, 1, c.engine.tenant_kv_share); }},
    {"engine", "sequences",
     [](const Value& v, Config& c) { return SetInteger(v, 1, 4096, c.engine.sequences); }},
    {"engine", "queue",
     [](const Value& v, Config& c) { return SetInteger(v, 1, 1 << 20, c.engine.queue); }},
    {"engine", "io_threads",
     [](const Value& v, Config& c) { return SetInteger(v, 1, 64, c.engine.io_threads); }},
    {"engine", "mode",
     [](const Value& v, Config& c) { return SetChoice(v, kModes, c.engine.mode); }},
    {"engine", "rules_off",
     [](const Value& v, Config& c) { return SetChoices(v, kRules, c.engine.rules_off); }},
    {"cache", "host_memory",
     [](const Value& v, Config& c) { return SetBytes(v, 0, c.cache.host_memory_bytes.emplace()); }},
    {"cache", "write_back",
     [](const Value& v, Config& c) { return SetBytes(v, 0, c.cache.write_back_bytes); }},
    {"cache", "prompt_memory",
     [](const Value& v, Config& c) { return SetBytes(v, 1 << 20, c.cache.prompt_memory_bytes); }},
    {"store", "data_dir", SetDataDir},
    {"store", "disk", [](const Value& v, Config& c) { return SetBool(v, c.store.disk); }},
    {"store", "disk_cache",
     [](const Value& v, Config& c) { return SetBytes(v, kMebibyte, c.store.disk_cache_bytes); }},
    {"store", "write_budget",
     [](const Value& v, Config& c) { return SetBytes(v, 0, c.store.write_budget_bytes); }},
    {"store", "flush_interval_ms",
     [](const Value& v, Config& c) {
       return SetInteger(v, 10, 1000 * kDaySeconds, c.store.flush_interval_ms);
     }},
    {"store", "sync", [](const Value& v, Config& c) { return SetBool(v, c.store.sync); }},
    {"store", "turns", [](const Value& v, Config& c) { return SetBool(v, c.store.turns); }},
    {"store", "turns_retention",
     [](const Value& v, Config& c) { return SetAge(v, c.store.turns_retention_seconds); }},
    {"store", "turns_bytes",
     [](const Value& v, Config& c) { return SetBytes(v, kMebibyte, c.store.turns_bytes); }},
    {"store", "prompts", [](const Value& v, Config& c) { return SetBool(v, c.store.prompts); }},
    {"store", "prompts_retention",
     [](const Value& v, Config& c) { return SetAge(v, c.store.prompts_retention_seconds); }},
    {"store", "secret_env",
     [](const Value& v, Config& c) { return SetString(v, c.store.secret_env); }},
    {"store", "shared", [](const Value& v, Config& c) { return SetString(v, c.store.shared); }},
    {"store", "shared_password_env",
     [](const Value& v, Config& c) { return SetString(v, c.store.shared_password_env); }},
    {"store", "shared_ca_file",
     [](const Value& v, Config& c) { return SetString(v, c.store.shared_ca_file); }},
    {"store", "shared_ttl",
     [](const Value& v, Config& c) { return SetAge(v, c.store.shared_ttl_seconds); }},
    {"store", "shared_write_budget",
     [](const Value& v, Config& c) { return SetBytes(v, 0, c.store.shared_write_budget_bytes); }},
    {"store", "prompts_bytes",
     [](const Value& v, Config& c) { return SetBytes(v, kMebibyte, c.store.prompts_bytes); }},
    {"store", "tenant_share",
     [](const Value& v, Config& c) { return SetNumber(v, 0.01, 1, c.store.tenant_share); }},
    {"store", "timeout_seconds",
     [](const Value& v, Config& c) {
       return SetInteger(v, 1, kDaySeconds, c.store.timeout_seconds);
     }},
    {"sessions", "mode",
     [](const Value& v, Config& c) { return SetChoice(v, kSessionModes, c.sessions.mode); }},
    {"sessions", "window_hard",
     [](const Value& v, Config& c) {
       return SetInteger(v, 0, kTokensMax, c.sessions.window_hard);
     }},
    {"sessions", "window_high",
     [](const Value& v, Config& c) {
       return SetInteger(v, 0, kTokensMax, c.sessions.window_high);
     }},
    {"sessions", "window_low",
     [](const Value& v, Config& c) { return SetInteger(v, 0, kTokensMax, c.sessions.window_low); }},
    {"sessions", "keep_system",
     [](const Value& v, Config& c) { return SetBool(v, c.sessions.keep_system); }},
    {"sessions", "keep_first_turns",
     [](const Value& v, Config& c) { return SetInteger(v, 0, 1000, c.sessions.keep_first_turns); }},
    {"sessions", "wait_seconds_max",
     [](const Value& v, Config& c) { return SetInteger(v, 0, 600, c.sessions.wait_seconds_max); }},
    {"sessions", "summary_tokens_max",
     [](const Value& v, Config& c) {
       return SetInteger(v, 0, 1 << 20, c.sessions.summary_tokens_max);
     }},
    {"sessions", "summary_model",
     [](const Value& v, Config& c) { return SetString(v, c.sessions.summary_model); }},
    {"sessions", "summary_prompt",
     [](const Value& v, Config& c) { return SetString(v, c.sessions.summary_prompt); }},
    {"sessions", "retrieval",
     [](const Value& v, Config& c) { return SetBool(v, c.sessions.retrieval); }},
    {"sessions", "retrieval_tokens",
     [](const Value& v, Config& c) {
       return SetInteger(v, 64, 65'536, c.sessions.retrieval_tokens);
     }},
    {"sessions", "retrieval_model",
     [](const Value& v, Config& c) { return SetString(v, c.sessions.retrieval_model); }},
    {"sessions", "tool_results",
     [](const Value& v, Config& c) { return SetChoice(v, kToolResults, c.sessions.tool_results); }},
    {"sessions", "tool_result_tokens",
     [](const Value& v, Config& c) {
       return SetInteger(v, 256, kTokensMax, c.sessions.tool_result_tokens);
     }},
    {"sessions", "summary_wait_seconds",
     [](const Value& v, Config& c) {
       return SetInteger(v, 0, 600, c.sessions.summary_wait_seconds);
     }},
    {"sessions", "summary_api_key",
     [](const Value& v, Config& c) {
       return SetChoice(v, kSummaryKeys, c.sessions.summary_api_key);
     }},
    {"sessions", "idle_compact",
     [](const Value& v, Config& c) { return SetChoice(v, kIdleChoices, c.sessions.idle_compact); }},
    {"ledger", "prices", SetPrices},
    {"ledger", "excerpts", [](const Value& v, Config& c) { return SetBool(v, c.ledger.excerpts); }},
    {"ledger", "records",
     [](const Value& v, Config& c) { return SetInteger(v, 0, 1 << 30, c.ledger.records); }},
    {"ledger", "segments",
     [](const Value& v, Config& c) { return SetInteger(v, 0, 1 << 30, c.ledger.segments); }},
    {"ledger", "retention_days",
     [](const Value& v, Config& c) { return SetInteger(v, 1, 36'500, c.ledger.retention_days); }},
    {"metrics", "key_env",
     [](const Value& v, Config& c) { return SetString(v, c.metrics.key_env); }},
    {"metrics", "sha256", [](const Value& v, Config& c) { return SetSha256(v, c.metrics.sha256); }},
    {"metrics", "compat",
     [](const Value& v, Config& c) { return SetChoices(v, kMetricsCompat, c.metrics.compat); }},
    {"telemetry", "endpoint",
     [](const Value& v, Config& c) { return SetOptionalUrl(v, c.telemetry.endpoint); }},
    {"telemetry", "headers_env",
     [](const Value& v, Config& c) { return SetString(v, c.telemetry.headers_env); }},
    {"telemetry", "service_name",
     [](const Value& v, Config& c) { return SetName(v, c.telemetry.service_name); }},
    {"telemetry", "ca_file",
     [](const Value& v, Config& c) { return SetString(v, c.telemetry.ca_file); }},
    {"telemetry", "spans", [](const Value& v, Config& c) { return SetBool(v, c.telemetry.spans); }},
    {"telemetry", "metrics",
     [](const Value& v, Config& c) { return SetBool(v, c.telemetry.metrics); }},
    {"telemetry", "interval_seconds",
     [](const Value& v,
        Config& c) { return SetInteger(v, 1, 3600, c.telemetry.interval_seconds); }},
    {"telemetry", "timeout_seconds",
     [](const Value& v, Config& c) { return SetInteger(v, 1, 600, c.telemetry.timeout_seconds); }},
    {"telemetry", "queue",
     [](const Value& v, Config& c) { return SetInteger(v, 1, 1 << 20, c.telemetry.queue); }},
    {"budgets", "dollars_per_day",
     [](const Value& v,
        Config& c) { return SetNumber(v, 0, kDollarsMax, c.budgets.tenant.dollars_per_day); }},
    {"budgets", "dollars_per_month",
     [](const Value& v,
        Config& c) { return SetNumber(v, 0, kDollarsMax, c.budgets.tenant.dollars_per_month); }},
    {"budgets", "tokens_per_day",
     [](const Value& v,
        Config& c) { return SetInteger(v, 0, kCountMax, c.budgets.tenant.tokens_per_day); }},
    {"budgets", "tokens_per_month",
     [](const Value& v,
        Config& c) { return SetInteger(v, 0, kCountMax, c.budgets.tenant.tokens_per_month); }},
    {"budgets", "thresholds",
     [](const Value& v, Config& c) { return SetShares(v, c.budgets.thresholds); }},
    {"budgets", "webhook",
     [](const Value& v, Config& c) { return SetWebhook(v, c.budgets.webhook); }},
    {"budgets", "webhook_secret_env",
     [](const Value& v, Config& c) { return SetString(v, c.budgets.webhook_secret_env); }},
    {"budgets", "webhook_ca_file",
     [](const Value& v, Config& c) { return SetString(v, c.budgets.webhook_ca_file); }},
    {"budgets", "webhook_timeout_seconds",
     [](const Value& v,
        Config& c) { return SetInteger(v, 1, 600, c.budgets.webhook_timeout_seconds); }},
    {"limits", "body",
     [](const Value& v, Config& c) { return SetBytes(v, 1024, c.limits.body_bytes); }},
    {"limits", "bodies",
     [](const Value& v, Config& c) { return SetBytes(v, kMebibyte, c.limits.bodies_bytes); }},
    {"limits", "tenant_bodies_share",
     [](const Value& v, Config& c) { return SetNumber(v, 0.01, 1, c.limits.tenant_bodies_share); }},
    {"limits", "import",
     [](const Value& v, Config& c) { return SetBytes(v, 1024, c.limits.import_bytes); }},
    {"limits", "headers",
     [](const Value& v, Config& c) { return SetBytes(v, 1024, c.limits.header_bytes); }},
    {"limits", "connections",
     [](const Value& v, Config& c) { return SetInteger(v, 1, 1 << 20, c.limits.connections); }},
    {"limits", "header_timeout_seconds",
     [](const Value& v,
        Config& c) { return SetInteger(v, 1, kDaySeconds, c.limits.header_timeout_seconds); }},
    {"limits", "body_timeout_seconds",
     [](const Value& v,
        Config& c) { return SetInteger(v, 1, kDaySeconds, c.limits.body_timeout_seconds); }},
    {"limits", "body_bytes_per_second_min",
     [](const Value& v,
        Config&
            c) { return SetInteger(v, 0, int64_t{1} << 30, c.limits.body_bytes_per_second_min); }},
    {"limits", "idle_timeout_seconds",
     [](const Value& v,
        Config& c) { return SetInteger(v, 1, kDaySeconds, c.limits.idle_timeout_seconds); }},
    {"limits", "write_timeout_seconds",
     [](const Value& v,
        Config& c) { return SetInteger(v, 1, kDaySeconds, c.limits.write_timeout_seconds); }},
    {"limits", "json_depth",
     [](const Value& v, Config& c) { return SetInteger(v, 8, 1024, c.limits.json_depth); }},
};

std::vector<std::string_view> TableNames() {
  std::vector<std::string_view> names = {"upstream", "route", "key", "prompt"};
  for (const Key& key : kKeys) {
    if (key.table != names.back()) names.push_back(key.table);
  }
  return names;
}

std::vector<std::string_view> NamesIn(std::string_view table) {
  std::vector<std::string_view> names;
  for (const Key& key : kKeys) {
    if (key.table == table) names.push_back(key.name);
  }
  return names;
}

// Names the tables that have a key of that name, in case it is in the wrong one.
std::string Elsewhere(std::string_view name) {
  std::string tables;
  for (const Key& key : kKeys) {
    if (key.name == name) tables += fmt::format("{}[{}]", tables.empty() ? "" : ", ", key.table);
  }
  return tables.empty() ? "" : fmt::format("; it belongs to {}", tables);
}

template <typename Element>
std::vector<std::string_view> NamesOf(std::span<const ElementKey<Element>> keys) {
  std::vector<std::string_view> names;
  for (const auto& key : keys) names.push_back(key.name);
  return names;
}

bool IsTable(std::string_view name) {
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&](const Key& key) { return key.table == name; });
}

const Key* FindKey(std::string_view table, std::string_view name) {
  const auto found = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& key) {
    return key.table == table && key.name == name;
  });
  return found == std::end(kKeys) ? nullptr : &*found;
}

std::optional<Value> FromToml(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return Value(*text);
  if (const auto flag = node.value_exact<bool>()) return Value(*flag);
  if (const auto integer = node.value_exact<int64_t>()) return Value(*integer);
  if (const auto number = node.value_exact<double>()) return Value(*number);
  if (const toml::array* array = node.as_array()) {
    std::vector<std::string> strings;
    std::vector<double> numbers;
    for (const toml::node& element : *array) {
      if (const auto number = element.value<double>()) numbers.push_back(*number);
    }
    if (!numbers.empty() && numbers.size() == array->size()) return Value(std::move(numbers));
    for (const toml::node& element : *array) {
      const auto text = element.value_exact<std::string>();
      if (!text) return std::nullopt;
      strings.push_back(*text);
    }
    return Value(std::move(strings));
  }
  return std::nullopt;
}

// Reads one file: collects the values it sets and its errors, with line numbers.
class Reader {
 public:
  explicit Reader(std::string_view file_name) : file_name_(file_name) {}

  void ReadTables(const toml::table& root) {
    for (const auto& [key, node] : root) {
      const std::string_view name = key.str();
      if (name == "upstream") {
        ReadElements<UpstreamConfig>("upstream", key, node, UpstreamKeys(), config_.upstreams);
      } else if (name == "route") {
        ReadElements<RouteConfig>("route", key, node, RouteKeys(), config_.routes);
      } else if (name == "key") {
        ReadElements<KeyConfig>("key", key, node, KeyKeys(), config_.keys);
      } else if (name == "prompt") {
        ReadElements<PromptConfig>("prompt", key, node, PromptKeys(), config_.prompts);
      } else if (!IsTable(name)) {
        Fail(key.source(),
             node.is_table()
                 ? fmt::format("unknown table [{}]{}", name, DidYouMean(name, TableNames()))
                 : fmt::format("unknown key '{}' outside of any table{}", name, Elsewhere(name)));
      } else if (const toml::table* table = node.as_table()) {
        ReadKeys(name, *table);
      } else {
        Fail(key.source(), fmt::format("'{}' must be a table: [{}]", name, name));
      }
    }
  }

  void Fail(const toml::source_region& source, std::string_view message) {
    errors_.emplace_back(source.begin.line,
                         fmt::format("{}:{}: {}", file_name_, source.begin.line, message));
  }

  tl::expected<Config, ConfigErrors> Finish() {
    if (errors_.empty()) return config_;
    // toml++ walks a table by name, but people read a file by line.
    std::stable_sort(errors_.begin(), errors_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    ConfigErrors errors;
    for (auto& [line, message] : errors_) errors.messages.push_back(std::move(message));
    return tl::make_unexpected(std::move(errors));
  }

 private:
  template <typename Element>
  void ReadElements(std::string_view name, const toml::key& key, const toml::node& node,
                    std::span<const ElementKey<Element>> keys, std::vector<Element>& out) {
    const toml::array* array = node.as_array();
    if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
      Fail(key.source(), fmt::format("'{}' must be an array of tables: [[{}]]", name, name));
      return;
    }
    for (const toml::node& node_of_element : *array) {
      const toml::table& table = *node_of_element.as_table();
      const size_t errors_before = errors_.size();
      Element element = ReadElement(name, table, keys);
      std::string problem = errors_.size() == errors_before ? Missing(element) : "";
      for (const Element& other : out) {
        if (problem.empty() && !element.name.empty() && UniqueName(other) == UniqueName(element)) {
          problem =
              fmt::format("there is another {} of the name \"{}\"", name, UniqueName(element));
        }
      }
      if (!problem.empty()) Fail(table.source(), problem);
      out.push_back(std::move(element));
    }
  }

  template <typename Element>
  Element ReadElement(std::string_view name, const toml::table& table,
                      std::span<const ElementKey<Element>> keys) {
    Element element;
    for (const auto& [key, node] : table) {
      const auto known = std::find_if(keys.begin(), keys.end(),
                                      [name = key.str()](const auto& k) { return k.name == name; });
      if (known == keys.end()) {
        Fail(key.source(), fmt::format("unknown key '{}' in [[{}]]{}", key.str(), name,
                                       DidYouMean(key.str(), NamesOf(keys))));
        continue;
      }
      const std::optional<Value> value = FromToml(node);
      const std::optional<std::string> problem =
          value ? known->set(*value, element)
                : std::optional<std::string>("has a type that no key of this file takes");
      if (problem) Fail(key.source(), fmt::format("{}.{} {}", name, key.str(), *problem));
    }
    return element;
  }

  void ReadKeys(std::string_view table_name, const toml::table& table) {
    for (const auto& [key, node] : table) {
      const Key* known = FindKey(table_name, key.str());
      if (known == nullptr) {
        const std::string near = DidYouMean(key.str(), NamesIn(table_name));
        Fail(key.source(), fmt::format("unknown key '{}' in [{}]{}", key.str(), table_name,
                                       near.empty() ? Elsewhere(key.str()) : near));
        continue;
      }
      const std::optional<Value> value = FromToml(node);
      const std::optional<std::string> problem =
          value ? known->set(*value, config_)
                : std::optional<std::string>("has a type that no key of this file takes");
      if (problem) {
        Fail(key.source(), fmt::format("{}.{} {}", table_name, key.str(), *problem));
      }
    }
  }

  const std::string file_name_;
  Config config_;
  std::vector<std::pair<toml::source_index, std::string>> errors_;
};

}  // namespace

tl::expected<Config, ConfigErrors> ParseConfig(std::string_view toml, std::string_view file_name) {
  const toml::parse_result parsed = toml::parse(toml, file_name);
  Reader reader(file_name);
  if (!parsed) {
    reader.Fail(parsed.error().source(), parsed.error().description());
  } else {
    reader.ReadTables(parsed.table());
  }
  return reader.Finish();
}

std::vector<std::string> KeyNames() {
  std::vector<std::string> names;
  for (const Key& key : kKeys) names.push_back(fmt::format("{}.{}", key.table, key.name));
  for (const auto& key : UpstreamKeys()) names.push_back(fmt::format("upstream.{}", key.name));
  for (const auto& key : RouteKeys()) names.push_back(fmt::format("route.{}", key.name));
  for (const auto& key : KeyKeys()) names.push_back(fmt::format("key.{}", key.name));
  for (const auto& key : PromptKeys()) names.push_back(fmt::format("prompt.{}", key.name));
  return names;
}

// Sums of shares are exact to this.
constexpr double kShareSlack = 1e-9;

std::optional<std::string> FindConflict(const Config& config) {
  if (config.engine.numerics == "fast" && config.engine.device == "cpu") {
    return "engine.numerics is fast, which only CUDA has, and engine.device is cpu: take invariant";
  }
  if (!config.metrics.key_env.empty() && !config.metrics.sha256.empty()) {
    return "metrics.key_env and metrics.sha256 are both set: name the key once";
  }
  std::map<std::string_view, double> shares;
  for (const PromptConfig& prompt : config.prompts) {
    double& sum = shares[prompt.name];
    sum += prompt.share.value_or(0);
    if (sum > 1 + kShareSlack) {
      return fmt::format("prompt.share: those of the prompt \"{}\" are {} together, and 1 is all",
                         prompt.name, sum);
    }
  }
  return std::nullopt;
}

tl::expected<Config, ConfigErrors> LoadConfig(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return tl::make_unexpected(ConfigErrors{
        {fmt::format("{}: cannot be read; check the path given to --config", path.string())}});
  }
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto config = ParseConfig(text, path.string());
  if (!config) return config;
  for (PromptConfig& prompt : config->prompts) prompt.file = path.parent_path() / prompt.file;
  return config;
}

Result<void> SetOption(std::string_view table, std::string_view key, std::string_view value,
                       Config& config) {
  const Key* known = FindKey(table, key);
  const std::string name = fmt::format("{}.{}", table, key);
  if (known == nullptr) {
    const std::string_view nearest = Nearest(key, NamesIn(table));
    std::string meant =
        nearest.empty() ? Elsewhere(key) : fmt::format("; did you mean '{}.{}'?", table, nearest);
    if (meant.empty()) meant = DidYouMean(table, TableNames());
    return MakeError(ErrorCode::kInvalidArgument, "config",
                     fmt::format("unknown key '{}'{}", name, meant));
  }
  // A path or name may look like a number or a boolean, so the key's own type decides.
  std::optional<std::string> problem = known->set(FromText(value), config);
  if (problem && !std::holds_alternative<std::string>(FromText(value))) {
    const std::optional<std::string> as_text = known->set(Value(std::string(value)), config);
    if (!as_text) problem.reset();
  }
  if (problem) {
    return MakeError(ErrorCode::kInvalidArgument, "config", fmt::format("{} {}", name, *problem),
                     name);
  }
  return {};
}

}  // namespace kvgate::config
