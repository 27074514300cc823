// ConnectionGroup owns every connection of a server: it starts them, tells them to end and waits
// for the last one. No connection runs outside of it. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "gateway/http/connection.h"

namespace kvgate::http {

class ConnectionGroup {
 public:
  explicit ConnectionGroup(metrics::Gauge& gauge) : gauge_(gauge) {}

  void Spawn(std::shared_ptr<Connection> connection);
  void DrainAll();
  void EndAnswers();
  void CancelAll();
  // Returns false if some are left when the time is over.
  bool WaitEmpty(std::chrono::milliseconds timeout);
  size_t size() const;

 private:
  void Remove(const std::shared_ptr<Connection>& connection);

  metrics::Gauge& gauge_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
};

}  // namespace kvgate::http
