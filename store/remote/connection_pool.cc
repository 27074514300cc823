#include "store/remote/connection_pool.h"

#include <algorithm>
#include <utility>

namespace kvgate::store::remote {

using std::chrono::steady_clock;

std::unique_ptr<RespConnection> ConnectionPool::TakeKept(const RespEndpoint& endpoint) {
  const TimePoint now = steady_clock::now();
  while (true) {
    Kept kept;
    {
      const std::lock_guard lock(mutex_);
      const auto found = kept_.find(endpoint);
      if (found == kept_.end()) return nullptr;
      kept = std::move(found->second.back());
      found->second.pop_back();
      if (found->second.empty()) kept_.erase(found);
    }
    if (kept.since + kIdleMax > now && kept.connection->IsReady()) {
      return std::move(kept.connection);
    }
  }
}

Result<std::unique_ptr<RespConnection>> ConnectionPool::Connect(const RespEndpoint& endpoint,
                                                                TimePoint deadline,
                                                                size_t num_others) {
  const TimePoint now = steady_clock::now();
  const auto share = (deadline - now) / static_cast<int64_t>(num_others + 1);
  const TimePoint until = now + std::min<steady_clock::duration>(options_.connect_timeout, share);
  auto made = RespConnection::Open(setup_, endpoint, until);
  if (!made) {
    Error error = std::move(made).error();
    if (error.code == ErrorCode::kDeadline && steady_clock::now() < deadline) {
      error.code = ErrorCode::kUnavailable;
    }
    return error;
  }
  if (!(*made)->server().empty()) {
    const std::lock_guard lock(mutex_);
    server_ = (*made)->server();
  }
  return made;
}

void ConnectionPool::Return(std::unique_ptr<RespConnection> connection) {
  std::unique_lock lock(mutex_);
  const RespEndpoint& endpoint = connection->endpoint();
  auto found = kept_.find(endpoint);
  if (found == kept_.end()) {
    if (options_.kept_max < 1 || kept_.size() >= kServersMax) return;
    found = kept_.emplace(endpoint, std::vector<Kept>()).first;
  }
  if (found->second.size() >= static_cast<size_t>(options_.kept_max)) return;
  found->second.push_back({std::move(connection), steady_clock::now()});
}

void ConnectionPool::Forget(const RespEndpoint& endpoint) {
  std::vector<Kept> closed;  // without the lock
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(endpoint);
  if (found == kept_.end()) return;
  closed = std::move(found->second);
  kept_.erase(found);
}

std::string ConnectionPool::server() const {
  const std::lock_guard lock(mutex_);
  return server_;
}

}  // namespace kvgate::store::remote
