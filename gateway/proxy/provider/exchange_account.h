// ExchangeAccount reports one forwarded request to the ledger. A large body is hashed on a worker,
// and neither its answer nor the client's next request waits for that: the account is closed by
// whichever ends last, the exchange or the hash.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gateway/access/gateway_keys.h"
#include "gateway/service/work_queue.h"
#include "gateway/upstream/exchange_observer.h"
#include "gateway/upstream/upstream_meter.h"

namespace kvgate::proxy::provider {

class ExchangeAccount : public std::enable_shared_from_this<ExchangeAccount> {
 public:
  // `key` is the caller's and may be null, as the upstream's `meter` may. The log that `observer`
  // reports to must outlive the account.
  ExchangeAccount(std::unique_ptr<upstream::ExchangeObserver> observer,
                  std::shared_ptr<access::GatewayKeys::Key> key,
                  std::shared_ptr<upstream::UpstreamMeter> meter = nullptr, bool is_stream = false);

  // The user calls OnSent on this, or HashOnWorker, which does. OnEnd is called by End alone.
  upstream::ExchangeObserver& observer() { return *observer_; }
  // Reports both bodies with OnSent on a worker, or on this thread if the pool is full. `received`
  // is released on `home`, whose body pool takes its memory back; `sent` may be the same body.
  void HashOnWorker(service::WorkQueue& pool, boost::asio::any_io_executor home,
                    std::shared_ptr<const std::string> received,
                    std::shared_ptr<const std::string> sent);
  void End(const upstream::ExchangeEnd& end);

 private:
  void Close(const upstream::ExchangeEnd& end);

  const std::unique_ptr<upstream::ExchangeObserver> observer_;
  const std::shared_ptr<access::GatewayKeys::Key> key_;
  const std::shared_ptr<upstream::UpstreamMeter> meter_;
  const bool is_stream_;  // the request asks for a stream
  std::mutex mutex_;
  bool hashing_ = false;
  std::optional<upstream::ExchangeEnd> end_;  // it has ended, and waits for the hash
};

}  // namespace kvgate::proxy::provider
