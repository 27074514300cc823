// Remote: a server of kvgate at the other end of a wire, as a transport: HTTP/1.1 with kept
// connections, TLS, and retries of what no server has begun with.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "sdk/src/transport/transport.h"

namespace kvgate::sdk::transport {

struct RemoteOptions {
  std::string url;  // with or without /v1
  std::string api_key = {};
  std::string ca_file = {};
  std::chrono::milliseconds connect_timeout{10'000};
  int retries = 2;
};

// Fails with kInvalidArgument for an address, a key or a file that cannot be used.
Result<std::unique_ptr<Transport>> ConnectRemote(const RemoteOptions& options);

}  // namespace kvgate::sdk::transport
