// ConfigMeaning: what a configuration makes a gateway do, in lines that people read: who reaches
// it, where requests go and with whose credential, who may use it, and what is kept where. Pure.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gateway/config/config.h"

namespace kvgate::cli::terminal {

struct ConfigMeaningArgs {
  bool has_local_model = true;
  std::filesystem::path data_dir = {};
};

// One line each for the listener, every upstream, every key, the local model, and every tier.
std::vector<std::string> ConfigMeaning(const config::Config& config, const ConfigMeaningArgs& args);

}  // namespace kvgate::cli::terminal
