#include "gateway/cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "base/log.h"

namespace kvgate::cli {
namespace {

struct Flag {
  const char* name;
  const char* table;
  const char* key;
  const char* help;
};

constexpr Flag kEngineFlags[] = {
    {"--model", "engine", "model",
     "GGUF file or Hugging Face folder (default: the model that kvgate brings along)"},
    {"--embedding-model", "engine", "embedding_model",
     "GGUF file of a model that makes embeddings, beside the other one (default: none)"},
    {"--device", "engine", "device", "auto, cpu or cuda"},
    {"--numerics", "engine", "numerics", "invariant or, on CUDA, fast"},
    {"--context", "engine", "context",
     "tokens of a sequence (0: as many as the model knows and memory holds)"},
    {"--threads", "engine", "threads", "threads of the engine (0: one per hardware thread)"},
    {"--cpu-target", "engine", "cpu_target",
     "auto, amx, avx512_vnni, avx512, avx2, sse4, neon or emu128 (default: the best there is)"},
    {"--kv-dtype", "engine", "kv_dtype", "f32, f16, bf16, fp8_e4m3, q8_0 or q4_0"},
    {"--kv-memory", "engine", "kv_memory", "memory for KV blocks, like 1GiB"},
    {"--chat-template", "engine", "chat_template",
     "Jinja file, or a built-in: chatml, llama2, llama3, plain (default: the model's own)"},
    {"--chat-format", "engine", "chat_format", "a built-in, as for --chat-template"},
    {"--disk-cache", "store", "disk_cache", "disk for KV blocks, like 16GiB"},
    {"--log-level", "server", "log_level", "debug, info, warning or error"},
    {"--log-format", "server", "log_format", "text or json"},
};

constexpr Flag kServerFlags[] = {
    {"--listen", "server", "listen", "ADDRESS:PORT; port 0 picks a free one"},
    {"--drain-seconds", "server", "drain_seconds", "grace for running requests at SIGTERM"},
};

constexpr Flag kDataDirFlag = {"--data-dir", "store", "data_dir",
                               "where KV is kept (default: $XDG_DATA_HOME/kvgate)"};
constexpr Flag kSecretFlag = {"--secret-env", "store", "secret_env",
                              "environment variable with its secrets (default: its secret.key)"};

void Add(CLI::App& app, const Flag& flag, ConfigFlags& flags) {
  app.add_option_function<std::string>(
      flag.name,
      [&flags, flag](const std::string& value) {
        flags.settings.push_back({flag.table, flag.key, value});
      },
      flag.help);
}

void AddSetting(const std::string& text, ConfigFlags& flags) {
  const size_t dot = text.find('.');
  const size_t equals = text.find('=');
  if (dot == std::string::npos || equals == std::string::npos || dot > equals) {
    throw CLI::ValidationError("--set", "must be TABLE.KEY=VALUE, like limits.body=16MiB");
  }
  flags.settings.push_back(
      {text.substr(0, dot), text.substr(dot + 1, equals - dot - 1), text.substr(equals + 1)});
}

LogLevel ToLogLevel(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  return name == "error" ? LogLevel::kError : LogLevel::kInfo;
}

}  // namespace

void AddDataDirFlag(CLI::App& app, ConfigFlags& flags) {
  Add(app, kDataDirFlag, flags);
  Add(app, kSecretFlag, flags);
}

void AddEngineFlags(CLI::App& app, ConfigFlags& flags) {
  app.add_option("--config", flags.file, "TOML configuration; flags override it");
  for (const Flag& flag : kEngineFlags) Add(app, flag, flags);
  AddDataDirFlag(app, flags);
  app.add_flag_callback(
      "--no-disk",
      [&flags] {
        flags.settings.push_back({"store", "disk", "false"});
      },
      "keep KV in memory only");
  app.add_option_function<std::vector<std::string>>(
         "--set",
         [&flags](const std::vector<std::string>& settings) {
           for (const std::string& setting : settings) AddSetting(setting, flags);
         },
         "TABLE.KEY=VALUE: any key of the configuration")
      ->allow_extra_args(false);  // else the last one takes the -- of `kvgate run` with it
}

void AddServerFlags(CLI::App& app, ConfigFlags& flags) {
  for (const Flag& flag : kServerFlags) Add(app, flag, flags);
}

Result<void> CheckDataDir(const std::filesystem::path& directory) {
  std::error_code code;
  if (std::filesystem::exists(directory, code)) return {};
  return MakeError(
      ErrorCode::kNotFound, "cli",
      fmt::format("there is no data directory {}; name one with --data-dir", directory.string()));
}

Result<config::Config> ReadConfig(const ConfigFlags& flags) {
  config::Config config;
  if (!flags.file.empty()) {
    auto loaded = config::LoadConfig(flags.file);
    if (!loaded) {
      return MakeError(ErrorCode::kInvalidArgument, "config",
                       fmt::format("{}", fmt::join(loaded.error().messages, "\n")));
    }
    config = std::move(*loaded);
  }
  for (const ConfigFlags::Setting& setting : flags.settings) {
    KVGATE_TRY_VOID(config::SetOption(setting.table, setting.key, setting.value, config));
  }
  if (const auto conflict = config::FindConflict(config)) {
    return MakeError(ErrorCode::kInvalidArgument, "config", *conflict);
  }
  ConfigureLog(
      {.level = ToLogLevel(config.server.log_level),
       .format = config.server.log_format == "json" ? LogFormat::kJson : LogFormat::kText});
  return config;
}

}  // namespace kvgate::cli
