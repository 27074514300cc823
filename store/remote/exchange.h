// Exchange: the commands of one call that go to one server, and their replies. It takes a kept
// connection or makes one. If a kept one turns out to be closed before a byte has come back, the
// commands are sent once more on a new one: the server had closed it while nobody used it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "store/remote/connection_pool.h"
#include "store/remote/resp_protocol.h"
#include "store/remote/resp_url.h"

namespace kvgate::store::remote {

using RespReplies = std::vector<RespReply>;

class Exchange {
 public:
  using TimePoint = RespConnection::TimePoint;
  // REQUIRES: the pool lives longer.
  Exchange(ConnectionPool& pool, RespEndpoint endpoint, TimePoint deadline)
      : pool_(pool), endpoint_(std::move(endpoint)), deadline_(deadline) {}

  // Leaves time for so many other servers, if it has to make a connection. Nothing has been sent if
  // it fails.
  Result<void> Connect(size_t num_others);
  // Begins to send; see RespConnection::Start. REQUIRES: Connect succeeded.
  void Start(std::span<const RespCommand> commands);
  // Returns one reply per command.
  Result<RespReplies> Finish();

  // Instead of Start: the connection is kept for another call.
  void PutBack();

  // After Finish failed: true if a kept connection was closed unanswered and the server cannot be
  // reached any more, so that another may be asked.
  bool may_ask_another() const { return may_ask_another_; }
  // True if the server has said that it is a node of a cluster.
  bool is_cluster() const { return connection_->is_cluster(); }
  const RespEndpoint& endpoint() const { return endpoint_; }

 private:
  ConnectionPool& pool_;
  const RespEndpoint endpoint_;
  const TimePoint deadline_;
  std::span<const RespCommand> commands_;
  std::unique_ptr<RespConnection> connection_;
  bool was_kept_ = false;
  bool may_ask_another_ = false;
};

}  // namespace kvgate::store::remote
