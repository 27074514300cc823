#include "gateway/proxy/provider/exchange_account.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "base/clock.h"

namespace kvgate::proxy::provider {

namespace asio = boost::asio;

ExchangeAccount::ExchangeAccount(std::unique_ptr<upstream::ExchangeObserver> observer,
                                 std::shared_ptr<access::GatewayKeys::Key> key,
                                 std::shared_ptr<upstream::UpstreamMeter> meter, bool is_stream)
    : observer_(std::move(observer)),
      key_(std::move(key)),
      meter_(std::move(meter)),
      is_stream_(is_stream) {
  if (meter_) meter_->Begin();
}

void ExchangeAccount::HashOnWorker(service::WorkQueue& pool, asio::any_io_executor home,
                                   std::shared_ptr<const std::string> received,
                                   std::shared_ptr<const std::string> sent) {
  hashing_ = true;  // set before the worker can run
  const auto hash = [self = shared_from_this(), home = std::move(home),
                     received = std::move(received), sent = std::move(sent)]() mutable {
    self->observer_->OnSent(*received, *sent);
    sent.reset();
    asio::post(home, [received = std::move(received)] {});
    std::optional<upstream::ExchangeEnd> end;
    {
      const std::lock_guard lock(self->mutex_);
      self->hashing_ = false;
      end = std::move(self->end_);
    }
    if (end) self->Close(*end);
  };
  if (pool.Post(key_ ? key_->name() : "", hash)) return;
  service::WorkQueue::Work here = hash;
  here();
}

void ExchangeAccount::End(const upstream::ExchangeEnd& end) {
  {
    const std::lock_guard lock(mutex_);
    if (hashing_) {
      end_ = end;
      return;
    }
  }
  Close(end);
}

void ExchangeAccount::Close(const upstream::ExchangeEnd& end) {
  const upstream::ExchangeTotals totals = observer_->OnEnd(end);
  if (meter_) {
    meter_->End(end, is_stream_ ? std::optional(totals.output_tokens) : std::nullopt);
  }
  if (key_ == nullptr) return;
  key_->Spend(totals.input_tokens + totals.output_tokens, SteadyClock::now());
}

}  // namespace kvgate::proxy::provider
