#include "gateway/config/elements.h"

namespace kvgate::config {
namespace {

constexpr std::string_view kDialects[] = {"openai", "anthropic", "gemini"};
constexpr std::string_view kEndpoints[] = {"chat", "responses"};
constexpr std::string_view kRetries[] = {"none", "connect", "reset"};

using Upstream = UpstreamConfig;
constexpr ElementKey<Upstream> kUpstreamKeys[] = {
    {"name", [](const Value& v, Upstream& u) { return SetName(v, u.name); }},
    {"dialect", [](const Value& v, Upstream& u) { return SetChoice(v, kDialects, u.dialect); }},
    {"provider", [](const Value& v, Upstream& u) { return SetName(v, u.provider); }},
    {"base_url", [](const Value& v, Upstream& u) { return SetUrl(v, u.base_url); }},
    {"models", [](const Value& v, Upstream& u) { return SetStrings(v, u.models); }},
    {"endpoints",
     [](const Value& v, Upstream& u) { return SetChoices(v, kEndpoints, u.endpoints); }},
    {"mode", [](const Value& v, Upstream& u) { return SetChoice(v, kModes, u.mode); }},
    {"rules_off", [](const Value& v, Upstream& u) { return SetChoices(v, kRules, u.rules_off); }},
    {"cache_ttl", [](const Value& v, Upstream& u) { return SetBool(v, u.cache_ttl); }},
    {"context_tokens",
     [](const Value& v, Upstream& u) { return SetInteger(v, 0, 1 << 28, u.context_tokens); }},
    {"api_key_env", [](const Value& v, Upstream& u) { return SetString(v, u.api_key_env); }},
    {"ca_file", [](const Value& v, Upstream& u) { return SetString(v, u.ca_file); }},
    {"connect_timeout_ms",
     [](const Value& v, Upstream& u) { return SetInteger(v, 1, 600'000, u.connect_timeout_ms); }},
    {"first_byte_timeout_seconds",
     [](const Value& v, Upstream& u) {
       return SetInteger(v, 1, kDaySeconds, u.first_byte_timeout_seconds);
     }},
    {"idle_timeout_seconds",
     [](const Value& v, Upstream& u) {
       return SetInteger(v, 1, kDaySeconds, u.idle_timeout_seconds);
     }},
    {"keep_alive_seconds",
     [](const Value& v, Upstream& u) {
       return SetInteger(v, 0, kDaySeconds, u.keep_alive_seconds);
     }},
    {"connections",
     [](const Value& v, Upstream& u) { return SetInteger(v, 1, 1 << 20, u.connections); }},
    {"retry", [](const Value& v, Upstream& u) { return SetChoice(v, kRetries, u.retry); }},
    {"retries", [](const Value& v, Upstream& u) { return SetInteger(v, 0, 10, u.retries); }},
    {"breaker_failures",
     [](const Value& v, Upstream& u) { return SetInteger(v, 0, 1'000'000, u.breaker_failures); }},
    {"breaker_seconds",
     [](const Value& v, Upstream& u) { return SetInteger(v, 1, kDaySeconds, u.breaker_seconds); }},
    {"forward_unknown", [](const Value& v, Upstream& u) { return SetBool(v, u.forward_unknown); }},
};

constexpr std::string_view kBalances[] = {"prefix", "order"};
constexpr std::string_view kRoles[] = {"user", "admin"};
constexpr ElementKey<RouteConfig> kRouteKeys[] = {
    {"name", [](const Value& v, RouteConfig& r) { return SetName(v, r.name); }},
    {"models", [](const Value& v, RouteConfig& r) { return SetStrings(v, r.models); }},
    {"targets", [](const Value& v, RouteConfig& r) { return SetStrings(v, r.targets); }},
    {"fallback", [](const Value& v, RouteConfig& r) { return SetStrings(v, r.fallback); }},
    {"balance", [](const Value& v, RouteConfig& r) { return SetChoice(v, kBalances, r.balance); }},
    {"affinity_seconds",
     [](const Value& v, RouteConfig& r) {
       return SetInteger(v, 1, kDaySeconds, r.affinity_seconds);
     }},
    {"load_factor",
     [](const Value& v, RouteConfig& r) { return SetNumber(v, 1, 1000, r.load_factor); }},
    {"local_tokens_max",
     [](const Value& v, RouteConfig& r) {
       return SetInteger(v, 0, kCountMax, r.local_tokens_max);
     }},
    {"single_flight_ms",
     [](const Value& v, RouteConfig& r) { return SetInteger(v, 0, 600'000, r.single_flight_ms); }},
};
constexpr ElementKey<KeyConfig> kKeyKeys[] = {
    {"name", [](const Value& v, KeyConfig& k) { return SetName(v, k.name); }},
    {"key_env", [](const Value& v, KeyConfig& k) { return SetString(v, k.key_env); }},
    {"sha256", [](const Value& v, KeyConfig& k) { return SetSha256(v, k.sha256); }},
    {"role", [](const Value& v, KeyConfig& k) { return SetChoice(v, kRoles, k.role); }},
    {"models", [](const Value& v, KeyConfig& k) { return SetStrings(v, k.models); }},
    {"mode", [](const Value& v, KeyConfig& k) { return SetChoice(v, kModes, k.mode); }},
    {"rules_off", [](const Value& v, KeyConfig& k) { return SetChoices(v, kRules, k.rules_off); }},
    {"default_max_tokens",
     [](const Value& v, KeyConfig& k) {
       return SetInteger(v, 0, kCountMax, k.default_max_tokens);
     }},
    {"output_tokens_max",
     [](const Value& v, KeyConfig& k) { return SetInteger(v, 0, kCountMax, k.output_tokens_max); }},
    {"prompt_tokens_max",
     [](const Value& v, KeyConfig& k) { return SetInteger(v, 0, kCountMax, k.prompt_tokens_max); }},
    {"requests_per_minute",
     [](const Value& v, KeyConfig& k) {
       return SetInteger(v, 0, kCountMax, k.requests_per_minute);
     }},
    {"tokens_per_minute",
     [](const Value& v, KeyConfig& k) { return SetInteger(v, 0, kCountMax, k.tokens_per_minute); }},
    {"tokens_per_day",
     [](const Value& v, KeyConfig& k) {
       return SetInteger(v, 0, kCountMax, k.budgets.tokens_per_day);
     }},
    {"tokens_per_month",
     [](const Value& v, KeyConfig& k) {
       return SetInteger(v, 0, kCountMax, k.budgets.tokens_per_month);
     }},
    {"dollars_per_day",
     [](const Value& v, KeyConfig& k) {
       return SetNumber(v, 0, kDollarsMax, k.budgets.dollars_per_day);
     }},
    {"dollars_per_month",
     [](const Value& v, KeyConfig& k) {
       return SetNumber(v, 0, kDollarsMax, k.budgets.dollars_per_month);
     }},
};

constexpr ElementKey<PromptConfig> kPromptKeys[] = {
    {"name", [](const Value& v, PromptConfig& p) { return SetName(v, p.name); }},
    {"version", [](const Value& v, PromptConfig& p) { return SetVersion(v, p.version); }},
    {"file",
     [](const Value& v, PromptConfig& p) {
       std::string file;
       std::optional<std::string> problem = SetString(v, file);
       p.file = file;
       return problem;
     }},
    {"share",
     [](const Value& v, PromptConfig& p) {
       double share = 0;
       std::optional<std::string> problem = SetNumber(v, 0, 1, share);
       p.share = share;
       return problem;
     }},
};

}  // namespace

std::span<const ElementKey<UpstreamConfig>> UpstreamKeys() { return kUpstreamKeys; }
std::span<const ElementKey<RouteConfig>> RouteKeys() { return kRouteKeys; }
std::span<const ElementKey<KeyConfig>> KeyKeys() { return kKeyKeys; }
std::span<const ElementKey<PromptConfig>> PromptKeys() { return kPromptKeys; }

std::string Missing(const UpstreamConfig& upstream) {
  if (upstream.name.empty()) return "upstream.name is missing";
  if (upstream.base_url.empty()) return "upstream.base_url is missing";
  return "";
}

std::string Missing(const RouteConfig& route) {
  return route.targets.empty() ? "route.targets is missing" : "";
}

std::string Missing(const KeyConfig& key) {
  if (key.name.empty()) return "key.name is missing";
  if (key.key_env.empty() == key.sha256.empty()) {
    return "a key needs key_env or sha256, and only one of them";
  }
  return "";
}

std::string Missing(const PromptConfig& prompt) {
  if (prompt.name.empty()) return "prompt.name is missing";
  if (prompt.version.empty()) return "prompt.version is missing";
  return prompt.file.empty() ? "prompt.file is missing" : "";
}

}  // namespace kvgate::config
