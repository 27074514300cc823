// Transport: how a request gets to a gateway: over a wire, or to one in this process. What it
// brings back is the same bytes.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sdk/src/transport/channel.h"

namespace kvgate::sdk::transport {

struct Request {
  std::string method = "GET";
  std::string path;  // "/v1/models"
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::chrono::milliseconds timeout{0};  // of the whole answer; 0: none
};

// Thread-safe.
class Transport {
 public:
  // Ends what is under way with KVGATE_CANCELLED, and waits for it.
  virtual ~Transport() = default;
  virtual std::shared_ptr<Channel> Start(Request request) = 0;
  // Serves the same gateway on "ADDRESS:PORT" too, until StopListening; returns the URL. Fails with
  // kUnsupported for one that is elsewhere.
  virtual Result<std::string> Listen(const std::string& address) = 0;
  virtual void StopListening(std::chrono::milliseconds drain) = 0;
};

}  // namespace kvgate::sdk::transport
