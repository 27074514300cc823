// CurrentTls: the certificate that new connections use; a reload replaces it. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "gateway/http/socket/listener_tls.h"

namespace kvgate::http {

class CurrentTls {
 public:
  using Tls = std::shared_ptr<const socket::ListenerTls>;
  explicit CurrentTls(Tls tls) : tls_(std::move(tls)) {}
  // Null: plain HTTP.
  Tls Get() const {
    const std::lock_guard lock(mutex_);
    return tls_;
  }
  void Set(Tls tls) {
    const std::lock_guard lock(mutex_);
    tls_.swap(tls);
  }

 private:
  mutable std::mutex mutex_;
  Tls tls_;
};

}  // namespace kvgate::http
