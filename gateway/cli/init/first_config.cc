#include "gateway/cli/init/first_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/config/config.h"
#include "gateway/config/nearest.h"

namespace kvgate::cli::init {
namespace {

constexpr std::string_view kHead = R"(
# The configuration of kvgate, as `kvgate init` wrote it. Every key has a default: what is not said
# here is as `kvgate config keys` says. After an edit: kvgate config check FILE
{}
[server]
# Only programs of this machine reach that address. Any other one needs a [[key]] for each caller.
# listen = "127.0.0.1:8080"

[engine]
# The local model, which answers to the name "local": a GGUF file or a Hugging Face folder. Where
# there is an upstream below, there is no local model without this line.
# model = "/path/to/model.gguf"

[store]
)";

constexpr std::string_view kOwnCredential = R"(
# The caller's own credential goes on to it, and is not kept. With the next line the gateway would
# pay with a key of its own environment, and so would any program that reaches its port.
# api_key_env = "{}"
)";

constexpr std::string_view kLentKey = R"(
# The gateway pays with the key in this variable of its environment. Any program that reaches its
# port spends it; with a [[key]] only callers that know one do.
api_key_env = "{}"
)";

std::string UpstreamText(const Provider& provider, bool is_lent) {
  std::string text =
      fmt::format("\n# {}: requests for these models go to it.\n[[upstream]]\n", provider.title);
  text += fmt::format("name = \"{}\"\ndialect = \"{}\"\nbase_url = \"{}\"\nmodels = [\"{}\"]\n",
                      provider.name, provider.dialect, provider.base_url,
                      fmt::join(provider.models, "\", \""));
  if (provider.endpoints != config::UpstreamConfig().endpoints) {
    text += fmt::format("# Requests for others are translated.\nendpoints = [\"{}\"]\n",
                        fmt::join(provider.endpoints, "\", \""));
  }
  text +=
      "# observe: no byte of a request is changed. pin: what equals something sent before goes\n"
      "# out in the same bytes, and cache breakpoints are set. stabilize: lines that change move\n"
      "# behind the stable prefix, too.\n"
      "mode = \"pin\"\n";
  text += is_lent ? fmt::format(kLentKey.substr(1), provider.key_env)
                  : fmt::format(kOwnCredential.substr(1), provider.key_env);
  return text;
}

std::string AgentText(const agents::Agent* agent) {
  if (agent == nullptr) return "";
  return fmt::format("#\n# {} through this gateway, when it serves: kvgate run -- {}\n",
                     agent->title, agent->commands.front());
}

}  // namespace

bool FirstConfig::lends(const Provider& provider) const {
  return std::find(lent_keys.begin(), lent_keys.end(), &provider) != lent_keys.end();
}

Result<const agents::Agent*> ParseAgent(std::string_view name) {
  if (name == "none") return nullptr;
  if (const agents::Agent* const agent = agents::FindAgent(name)) return agent;
  std::vector<std::string_view> names;
  for (const agents::Agent& agent : agents::KnownAgents()) names.push_back(agent.name);
  return MakeError(ErrorCode::kInvalidArgument, "cli",
                   fmt::format("no agent '{}' is known{}; there are {}, or none", name,
                               config::DidYouMean(name, names), fmt::join(names, ", ")));
}

Result<std::string> ParseDisk(std::string_view text) {
  if (text == "none" || text == "0") return std::string();
  config::Config config;
  if (const auto set = config::SetOption("store", "disk_cache", std::string(text), config); !set) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("the disk for KV {}", set.error().detail));
  }
  return std::string(text);
}

std::string TextOf(const FirstConfig& first) {
  std::string text = fmt::format(kHead.substr(1), AgentText(first.agent));
  if (first.disk.empty()) {
    text += "# KV is kept in memory only.\ndisk = false\n";
  } else {
    text += fmt::format(
        "# KV that outlives a restart takes that much disk at most, in data_dir.\n"
        "disk_cache = \"{}\"\n# data_dir = \"\"   # default: $XDG_DATA_HOME/kvgate\n",
        first.disk);
  }
  for (const Provider* const provider : first.providers) {
    text += UpstreamText(*provider, first.lends(*provider));
  }
  return text;
}

}  // namespace kvgate::cli::init
