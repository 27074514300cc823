// EndpointRouter: several servers of which one answers, such as a primary and its replicas, each of
// which has all keys. A call goes to the one that answered last, and to the next in the order of
// the URL if that cannot be reached or says that it does not serve now.
//
// All functions may be called from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/remote/connection_pool.h"
#include "store/remote/exchange.h"
#include "store/remote/resp_protocol.h"
#include "store/remote/resp_url.h"

namespace kvgate::store::remote {

// Returns the error by which a server says that it, as a whole, does not serve now: READONLY,
// LOADING, MASTERDOWN, CLUSTERDOWN. Null if there is none among the replies.
const RespReply* FindRefusal(std::span<const RespReply> replies);
// That as an error of a call, kUnavailable.
Error RefusalError(const RespReply& refusal, const RespEndpoint& endpoint);

class EndpointRouter {
 public:
  using TimePoint = RespConnection::TimePoint;
  // REQUIRES: endpoints is not empty; the pool lives longer.
  EndpointRouter(ConnectionPool& pool, std::vector<RespEndpoint> endpoints)
      : pool_(pool), endpoints_(std::move(endpoints)) {}

  struct Answer {
    RespEndpoint endpoint;
    // One per command; empty if nothing was sent, because the server is a node of a cluster.
    RespReplies replies = {};
  };
  Result<Answer> Call(std::span<const RespCommand> commands, TimePoint deadline);

 private:
  ConnectionPool& pool_;
  const std::vector<RespEndpoint> endpoints_;
  std::atomic<size_t> first_{0};  // which one the next call asks first
};

}  // namespace kvgate::store::remote
