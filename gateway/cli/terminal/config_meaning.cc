#include "gateway/cli/terminal/config_meaning.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "gateway/cli/terminal/figures.h"

namespace kvgate::cli::terminal {
namespace {

constexpr size_t kColumns = 120;

std::string Models(const std::vector<std::string>& globs) {
  if (globs == std::vector<std::string>{"*"}) return "all models";
  return Shown(fmt::format("{}", fmt::join(globs, ", ")), kColumns);
}

std::string Size(uint64_t bytes) { return Bytes(static_cast<int64_t>(bytes)); }

std::string ListenerLine(const config::Config& config) {
  const Result<config::HostPort> address = config::ParseHostPort(config.server.listen);
  const bool is_loopback = address && address->is_loopback();
  return fmt::format(
      "listens on {}{}: {}; {}", config.server.listen,
      config.server.tls_cert.empty() ? "" : " with TLS",
      is_loopback ? "only programs of this machine reach it" : "other machines reach it",
      config.keys.empty() ? "no [[key]], so that they all may use it"
                          : "whoever has a [[key]] may use it");
}

std::string UpstreamLine(const config::UpstreamConfig& upstream, bool has_keys) {
  std::string credential = "the caller's own credential";
  if (!upstream.api_key_env.empty()) {
    credential =
        fmt::format("the key in ${}, which {} spends", Shown(upstream.api_key_env, kColumns),
                    has_keys ? "whoever has a [[key]]" : "whoever reaches the gateway");
  }
  return fmt::format("upstream {}: {} go to {} with {}; mode {}", upstream.name,
                     Models(upstream.models), Shown(upstream.base_url, kColumns), credential,
                     upstream.mode);
}

template <typename Limit>
void AddLimit(Limit limit, std::string_view what, std::string& line) {
  if (limit > 0) line += fmt::format(", {} {}", limit, what);
}

void AddBudgets(const config::BudgetLimits& budgets, std::string& line) {
  AddLimit(budgets.dollars_per_day, "dollars a day", line);
  AddLimit(budgets.dollars_per_month, "dollars a month", line);
  AddLimit(budgets.tokens_per_day, "tokens a day", line);
  AddLimit(budgets.tokens_per_month, "tokens a month", line);
}

std::string KeyLine(const config::KeyConfig& key) {
  std::string line = fmt::format("key {}: {} may ask for {}", key.name,
                                 key.role == "admin" ? "an admin, who sees everybody's records,"
                                                     : "a user, who sees its own records,",
                                 Models(key.models));
  AddLimit(key.requests_per_minute, "requests a minute", line);
  AddLimit(key.tokens_per_minute, "tokens a minute", line);
  AddLimit(key.prompt_tokens_max, "tokens of a prompt", line);
  AddLimit(key.output_tokens_max, "tokens of an answer", line);
  AddBudgets(key.budgets, line);
  return line;
}

std::string PromptLine(const config::PromptConfig& prompt) {
  std::string line = fmt::format("prompt {}@{}: {}", prompt.name, prompt.version,
                                 Shown(prompt.file.string(), kColumns));
  if (!prompt.share) return line + ", where no share names another version";
  return *prompt.share == 0 ? line + ", only where its version is named"
                            : line + fmt::format(", {:.4g} % of what begins", *prompt.share * 100);
}

// Empty if there is no such budget.
std::string TenantLine(const config::BudgetLimits& budgets) {
  std::string limits;
  AddBudgets(budgets, limits);
  return limits.empty() ? "" : "budgets of each tenant whose key sets none" + limits;
}

void AddLocal(const config::Config& config, const ConfigMeaningArgs& args,
              std::vector<std::string>& lines) {
  if (!args.has_local_model) {
    lines.push_back("local model: none, as there is an upstream and no engine.model");
    return;
  }
  const auto& host = config.cache.host_memory_bytes;
  lines.push_back(config.engine.model.empty()
                      ? std::string("local model: the small one that comes with kvgate")
                      : "local model: " + Shown(config.engine.model, kColumns));
  lines.push_back("tier device: " + (config.engine.kv_memory_bytes == 0
                                         ? "KV memory as the device has it"
                                         : Size(config.engine.kv_memory_bytes) + " of KV memory"));
  lines.push_back("tier host: " + (!host        ? "memory as the device suggests"
                                   : *host == 0 ? std::string("none")
                                                : Size(*host) + " of memory"));
}

}  // namespace

std::vector<std::string> ConfigMeaning(const config::Config& config,
                                       const ConfigMeaningArgs& args) {
  std::vector<std::string> lines = {ListenerLine(config)};
  for (const config::UpstreamConfig& upstream : config.upstreams) {
    lines.push_back(UpstreamLine(upstream, !config.keys.empty()));
  }
  for (const config::KeyConfig& key : config.keys) lines.push_back(KeyLine(key));
  if (std::string line = TenantLine(config.budgets.tenant); !line.empty()) {
    lines.push_back(std::move(line));
  }
  for (const config::PromptConfig& prompt : config.prompts) lines.push_back(PromptLine(prompt));
  AddLocal(config, args, lines);
  lines.push_back(config.store.disk ? fmt::format("tier disk: at most {} of KV in {}",
                                                  Size(config.store.disk_cache_bytes),
                                                  Shown(args.data_dir.string(), kColumns))
                                    : "tier disk: none, KV ends with the process");
  if (!config.store.shared.empty()) {
    lines.push_back(fmt::format("tier shared: {}, at most {} of KV a day",
                                Shown(config.store.shared, kColumns),
                                Size(config.store.shared_write_budget_bytes)));
  }
  return lines;
}

}  // namespace kvgate::cli::terminal
