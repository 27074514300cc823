// ClusterRouter: a cluster, of which each node holds the keys of some slots. The commands of a call
// go to the nodes of their keys, to each node as one pipeline, to all at the same time.
//
// It learns which node has which slot from CLUSTER SLOTS, and again when a node says that a slot
// has moved (MOVED) or cannot be reached: another node may have taken its place.
//
// All functions may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "store/remote/connection_pool.h"
#include "store/remote/exchange.h"
#include "store/remote/hash_slots.h"
#include "store/remote/resp_protocol.h"
#include "store/remote/resp_url.h"

namespace kvgate::store::remote {

class ClusterRouter {
 public:
  using TimePoint = RespConnection::TimePoint;
  static constexpr int kRedirectsMax = 5;  // of one command
  // The slots are not asked for again before this has passed, unless a node is missing.
  static constexpr std::chrono::seconds kRefreshPause{1};

  // REQUIRES: seeds is not empty; the pool lives longer.
  ClusterRouter(ConnectionPool& pool, std::vector<RespEndpoint> seeds)
      : pool_(pool), seeds_(std::move(seeds)) {}

  // Returns one reply per command. It follows the nodes' redirects.
  Result<RespReplies> Call(std::span<const RespCommand> commands, TimePoint deadline);
  // The same for commands that `asked` has replied to: only those that it has redirected are sent.
  Result<RespReplies> Follow(std::span<const RespCommand> commands, const RespEndpoint& asked,
                             RespReplies replies, TimePoint deadline);

  // True once it has been used, until a server says that there is no cluster any more.
  bool is_active() const { return is_active_; }
  // Null before the slots are known.
  std::shared_ptr<const SlotMap> map() const;
  // The slot has moved to the node.
  void Move(const SlotRedirect& moved);
  // Asks one node after the other for the slots, until one answers; those that have just failed are
  // asked last.
  Result<void> Refresh(std::span<const RespEndpoint> failed, TimePoint deadline);
  ConnectionPool& pool() { return pool_; }
  const std::vector<RespEndpoint>& seeds() const { return seeds_; }

 private:
  // Asks for the slots if they are not known, or have changed and nobody else asks.
  Result<void> Prepare(TimePoint deadline);
  void Leave();

  ConnectionPool& pool_;
  const std::vector<RespEndpoint> seeds_;
  std::atomic<bool> is_active_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<const SlotMap> map_;
  bool has_changed_ = false;  // since map_ was read
  TimePoint refreshed_{};     // or tried to
};

}  // namespace kvgate::store::remote
