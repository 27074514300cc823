#include "gateway/http/connection_group.h"

#include <boost/asio/co_spawn.hpp>
#include <exception>
#include <utility>

#include "base/memory_fence.h"

namespace kvgate::http {

void ConnectionGroup::Spawn(std::shared_ptr<Connection> connection) {
  {
    const std::lock_guard lock(mutex_);
    connections_.insert(connection);
    gauge_.Set(static_cast<int64_t>(connections_.size()));
  }
  Connection& borrowed = *connection;
  // The handler holds the connection, so the coroutine's `this` lives as long as its frame.
  boost::asio::co_spawn(borrowed.executor(), borrowed.Run(),
                        [this, connection = std::move(connection)](std::exception_ptr failure) {
                          if (failure) {
                            try {
                              std::rethrow_exception(failure);
                            } catch (const std::exception& error) {
                              LogFailure("http", "a connection ended by an exception", "", error);
                            }
                          }
                          Remove(connection);
                        });
}

void ConnectionGroup::Remove(const std::shared_ptr<Connection>& connection) {
  const std::lock_guard lock(mutex_);
  connections_.erase(connection);
  gauge_.Set(static_cast<int64_t>(connections_.size()));
  // Notifies under the lock, because the group may be destroyed as soon as a waiter sees it empty.
  if (connections_.empty()) empty_.notify_all();
}

void ConnectionGroup::DrainAll() {
  const std::lock_guard lock(mutex_);
  for (const auto& connection : connections_) connection->Drain();
}

void ConnectionGroup::EndAnswers() {
  const std::lock_guard lock(mutex_);
  for (const auto& connection : connections_) connection->EndAnswer();
}

void ConnectionGroup::CancelAll() {
  const std::lock_guard lock(mutex_);
  for (const auto& connection : connections_) connection->Cancel();
}

bool ConnectionGroup::WaitEmpty(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, timeout, [&] { return connections_.empty(); });
}

size_t ConnectionGroup::size() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

}  // namespace kvgate::http
