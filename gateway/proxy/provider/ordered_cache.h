// OrderedCache asks a provider to make an explicit cache, or to prolong one, beside the requests
// whose prefix it holds. It goes to the same upstream with the credential that the request was sent
// with, which it keeps for as long as this one exchange takes; its record in the ledger has the
// purpose "explicit_cache", and its cost the rent. Nobody waits for it: a failure means that
// requests go out as they came.
#pragma once

#include <memory>
#include <string>

#include "gateway/proxy/request/request_context.h"
#include "gateway/proxy/work/background.h"
#include "gateway/service/explicit_cache/explicit_caching.h"
#include "gateway/upstream/exchange.h"
#include "gateway/upstream/wire/timer.h"

namespace kvgate::proxy::provider {

// What such a request is for, as a source of the ledger.
inline constexpr std::string_view kCachePurpose = "explicit_cache";

class OrderedCache final : public work::BackgroundJob,
                           public std::enable_shared_from_this<OrderedCache> {
 public:
  struct Args {
    const request::RequestContext& request;  // that it was ordered for; it need not outlive this
    std::string upstream;                    // that the request went to
    std::string model;                       // as that knows it
    service::explicit_cache::CacheOrder order;
  };
  explicit OrderedCache(Args args);

  request::Task<void> Run() override;
  void Cancel() override;

 private:
  void ArmTick();
  std::string Head(const upstream::Upstream& upstream) const;
  void Account(const upstream::Upstream& upstream, const upstream::Exchange& exchange,
               const Result<int64_t>& num_tokens, const std::string& failure);

  request::Environment& environment_;
  const std::shared_ptr<const request::Targets> targets_;
  const std::string upstream_;
  const std::string model_;
  const service::explicit_cache::CacheOrder order_;
  const std::string tenant_;
  const std::string key_;  // the gateway key's name
  // The caller's credential, in the fields in which it came; empty if the upstream has its own.
  std::string authorization_;
  std::string api_key_;
  const request::ResponseSink::Executor executor_;
  upstream::wire::Timer tick_;
  std::chrono::system_clock::time_point begun_at_;
  upstream::Exchange* exchange_ = nullptr;  // while Run waits for its answer
  bool is_cancelled_ = false;
};

}  // namespace kvgate::proxy::provider
