#include "gateway/upstream/upstream_meter.h"

#include "base/clock.h"

namespace kvgate::upstream {

void UpstreamMeter::Begin() {
  const std::lock_guard lock(mutex_);
  ++active_;
}

void UpstreamMeter::End(const ExchangeEnd& end, std::optional<uint64_t> num_output_tokens) {
  using std::chrono::duration_cast;
  using std::chrono::microseconds;
  const auto now = SteadyClock::now();
  const bool is_cut = end.outcome == ExchangeOutcome::kUpstreamCut ||
                      end.outcome == ExchangeOutcome::kFailed ||
                      end.outcome == ExchangeOutcome::kRefused;
  const bool has_left = end.outcome == ExchangeOutcome::kClientLeft;
  const std::lock_guard lock(mutex_);
  --active_;
  if (end.superseded) return;
  ++requests_;
  if (is_cut || (!has_left && end.status >= 400)) ++failed_;
  const bool is_timed = end.outcome == ExchangeOutcome::kComplete && end.status == 200 &&
                        num_output_tokens && end.first_body.count() >= 0;
  if (!is_timed) return;
  ttft_.Add(duration_cast<microseconds>(end.first_body), now);
  if (*num_output_tokens < 2) return;
  const auto decode = duration_cast<microseconds>(end.ended - end.first_body);
  tpot_.Add(decode / static_cast<int64_t>(*num_output_tokens - 1), now);
}

UpstreamMeter::Numbers UpstreamMeter::numbers() const {
  const auto now = SteadyClock::now();
  const std::lock_guard lock(mutex_);
  return {.active = active_,
          .requests = requests_,
          .failed = failed_,
          .ttft = ttft_.At(now),
          .tpot = tpot_.At(now)};
}

}  // namespace kvgate::upstream
