// Command-line options that set the configuration, one flag per key, with the same checks as the
// file.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gateway/config/config.h"

namespace CLI {
class App;
}

namespace kvgate::cli {

// The values of the flags; they override the file's when the command runs.
struct ConfigFlags {
  std::string file;
  struct Setting {
    std::string table;
    std::string key;
    std::string value;
  };
  std::vector<Setting> settings;
};

// Adds --config, --model, --data-dir, --context … and --set TABLE.KEY=VALUE for all other keys.
void AddEngineFlags(CLI::App& app, ConfigFlags& flags);
// Adds --listen and the other flags that only a server has.
void AddServerFlags(CLI::App& app, ConfigFlags& flags);
void AddDataDirFlag(CLI::App& app, ConfigFlags& flags);

// Reads the file, applies the flags, then configures the log. Fails with kInvalidArgument, listing
// all problems, one per line.
Result<config::Config> ReadConfig(const ConfigFlags& flags);
// Returns kNotFound, with what to do, if there is no data directory of that name.
Result<void> CheckDataDir(const std::filesystem::path& directory);

}  // namespace kvgate::cli
