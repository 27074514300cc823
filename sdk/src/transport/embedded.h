// Embedded: a whole gateway in this process, as a transport. Requests go the way of all others, but
// for the socket.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "gateway/config/config.h"
#include "sdk/src/transport/transport.h"

namespace kvgate::sdk::transport {

struct EmbeddedOptions {
  std::string config_file = {};  // at most one of these two
  std::string config_toml = {};
  std::string model = {};
  std::string data_dir = {};
  std::string api_key = {};
  bool needs_disk = false;
  std::function<void()> while_loading = {};
};

// Fails with kInvalidArgument for a configuration that is wrong, and as Runtime::Open does.
Result<config::Config> ReadConfig(const EmbeddedOptions& options);
Result<std::unique_ptr<Transport>> OpenEmbedded(const EmbeddedOptions& options);

}  // namespace kvgate::sdk::transport
