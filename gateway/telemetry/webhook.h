// Webhook: posts short JSON documents to one address, in their order.
//
// Post never waits: it puts a document into a bounded queue, and what does not fit is dropped and
// counted. One thread of the webhook's own does the rest. What gets no answer, 408, 429 or 5xx is
// tried again a few times, with growing pauses, and then given up: losing it costs nothing else.
// The secret and the path of the address are never logged, because a path may be a secret, too.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "gateway/config/config.h"
#include "gateway/upstream/wire/proxy_env.h"

namespace kvgate::telemetry {

// What became of documents. It outlives the webhooks that count in it.
struct WebhookCounts {
  std::atomic<uint64_t> num_sent{0};
  std::atomic<uint64_t> num_failed{0};   // given up
  std::atomic<uint64_t> num_dropped{0};  // the queue was full
};

struct WebhookOptions {
  size_t queue_max = 256;                 // documents that wait; further ones are dropped
  int attempts_max = 4;                   // of one document
  std::chrono::milliseconds pause{1000};  // after the first failed attempt; then twice as long
  std::chrono::milliseconds grace{2000};  // to send what waits, when it is destroyed
};

class Webhook {
 public:
  // Starts the thread. Fails with kInvalidArgument for a variable or a file that is missing.
  // REQUIRES: the configuration has an address.
  static Result<std::unique_ptr<Webhook>> Open(
      const config::BudgetsConfig& config, WebhookCounts& counts,
      const WebhookOptions& options = {},
      const upstream::wire::Environment& environment = upstream::wire::ProcessEnvironment);
  virtual ~Webhook() = default;

  // Callable from any thread.
  virtual void Post(std::string json) = 0;
};

}  // namespace kvgate::telemetry
