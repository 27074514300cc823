// ExchangeAccount: what the ledger is told of one forwarded request. A large body is hashed on a
// worker, and neither its answer nor the client's next request waits for that: the account is
// closed by whichever ends last, the exchange or the hash.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gateway/service/gateway_keys.h"
#include "gateway/service/work_queue.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::http {

class ExchangeAccount : public std::enable_shared_from_this<ExchangeAccount> {
 public:
  // `key`, the caller's, may be null; what the observer reports to outlives the account.
  ExchangeAccount(std::unique_ptr<upstream::ExchangeObserver> observer,
                  std::shared_ptr<service::GatewayKeys::Key> key)
      : observer_(std::move(observer)), key_(std::move(key)) {}

  // OnSent is told by one of these two, OnEnd by End.
  upstream::ExchangeObserver& observer() { return *observer_; }
  // `received` is let go on `home`, where its memory is wanted again; `sent` may be the same.
  // Where the pool is full it is hashed here.
  void HashOnWorker(service::WorkQueue& pool, boost::asio::any_io_executor home,
                    std::shared_ptr<const std::string> received,
                    std::shared_ptr<const std::string> sent);
  void End(const upstream::ExchangeEnd& end);

 private:
  void Close(const upstream::ExchangeEnd& end);

  const std::unique_ptr<upstream::ExchangeObserver> observer_;
  const std::shared_ptr<service::GatewayKeys::Key> key_;
  std::mutex mutex_;
  bool hashing_ = false;
  std::optional<upstream::ExchangeEnd> end_;  // it has ended, and waits for the hash
};

}  // namespace kvgate::http
