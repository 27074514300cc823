// The command line's options that set the configuration: one flag per key, with the file's checks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <kvgate/result.h>

#include "gateway/config/config.h"

namespace CLI {
class App;
}

namespace kvgate::cli {

// What the flags said; applied over the file when the command runs.
struct ConfigFlags {
  std::string file;
  struct Setting {
    std::string table;
    std::string key;
    std::string value;
  };
  std::vector<Setting> settings;
};

// --config, --model, --data-dir, --context … and --set TABLE.KEY=VALUE for all the others.
void AddEngineFlags(CLI::App& app, ConfigFlags& flags);
// --listen and what else only a server has.
void AddServerFlags(CLI::App& app, ConfigFlags& flags);
void AddDataDirFlag(CLI::App& app, ConfigFlags& flags);

// File, then flags; then the log is configured by it. kInvalidArgument: all problems, one per line.
Result<config::Config> ReadConfig(const ConfigFlags& flags);

}  // namespace kvgate::cli
