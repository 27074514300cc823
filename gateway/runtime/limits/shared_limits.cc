#include "gateway/runtime/limits/shared_limits.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "base/digest.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/memory_fence.h"

namespace kvgate::runtime::limits {
namespace {

using store::shared::SharedSums;

constexpr std::string_view kSource = "limits";
constexpr int64_t kDaySeconds = 86'400;

std::string NewId() { return ToHex(RandomSeed(), RandomSeed()); }

}  // namespace

SharedLimits::SharedLimits(const Options& options, SharedBudgets::Parts parts, GetCurrent current)
    : options_(options),
      parts_(std::move(parts)),
      current_(std::move(current)),
      process_(NewId()),
      budgets_(parts_),
      rates_(parts_.sums),
      shared_at_(SteadyClock::now()) {}

SharedLimits::~SharedLimits() { Stop(); }

void SharedLimits::Start() {
  thread_ = std::thread([this] { Run(); });
}

void SharedLimits::Stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (parts_.alerts == nullptr) return;
  parts_.alerts->ReportWaiting([](const std::string&, int64_t) { return true; }, SIZE_MAX);
}

void SharedLimits::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    const bool stops = is_stopping_;
    lock.unlock();
    (void)Attempt(kSource, "sharing limits", [this] { Exchange(); });
    lock.lock();
    if (stops) return;
    wake_.wait_for(lock, options_.interval, [this] { return is_stopping_; });
  }
}

void SharedLimits::Exchange() {
  Note(TryExchange());
  Report();
}

Result<void> SharedLimits::TryExchange() {
  const Current current = current_();
  std::vector<SharedSums::Own> own;
  rates_.Collect(*current.keys, own);
  const size_t num_rates = own.size();
  budgets_.Collect(*current.budgets, options_.budgets_max, own);
  if (own.empty()) return {};
  if (parts_.sums.is_paused()) {
    return MakeError(ErrorCode::kUnavailable, kSource, "the shared store does not answer");
  }
  const auto deadline = SteadyClock::now() + options_.call_time_max;
  KVGATE_TRY(const std::vector<SharedSums::Others> said, parts_.sums.Exchange(own, deadline));
  for (const SharedSums::Others& others : said) num_damaged_ += others.num_damaged;
  rates_.Take(std::span(said).first(num_rates));
  budgets_.Take(std::span(said).subspan(num_rates));
  num_exchanged_ += 1;
  return {};
}

// One exchange that fails is none to speak of: limits lag behind by its time.
void SharedLimits::Note(const Result<void>& exchanged) {
  const TimePoint now = SteadyClock::now();
  if (exchanged) {
    shared_at_ = now;
    if (std::exchange(is_away_, false)) {
      KVGATE_LOG(kInfo, kSource, "budgets and limits of keys hold over all gateways again");
    }
    return;
  }
  num_failed_ += 1;
  if (is_away_ || now - shared_at_.load() < SharedRates::kLostTouch) return;
  is_away_ = true;
  KVGATE_LOG(kWarning, kSource,
             "limits of keys are this gateway's alone, and budgets know of the others what those "
             "said last: {}",
             exchanged.error().ToString());
}

// A report that nobody can be asked about is made: better twice than not at all.
void SharedLimits::Report() {
  if (parts_.alerts == nullptr) return;
  const auto claim = [&](const std::string& what, int64_t until_us) {
    if (parts_.sums.is_paused()) return true;
    const int64_t left = (until_us - WallClock::NowUs()) / 1'000'000;
    const auto claimed = parts_.sums.Claim(
        {.what = what,
         .by = process_,
         .time_to_live = std::chrono::seconds(std::max<int64_t>(left, 0) + kDaySeconds)},
        SteadyClock::now() + options_.call_time_max);
    return !claimed || *claimed;
  };
  parts_.alerts->ReportWaiting(claim, options_.claims_max);
}

void SharedLimits::Collect(metrics::TextWriter& writer) const {
  constexpr std::string_view kExchanges = "kvgate_shared_limit_exchanges_total";
  writer.Family(kExchanges, "counter",
                "Exchanges of budgets and limits of keys with other gateways, by result.");
  writer.Sample(kExchanges, {{"result", "ok"}}, num_exchanged_.load());
  writer.Sample(kExchanges, {{"result", "failed"}}, num_failed_.load());
  constexpr std::string_view kDamaged = "kvgate_shared_limit_damaged_total";
  writer.Family(kDamaged, "counter", "Values of other gateways that could not be read.");
  writer.Sample(kDamaged, {}, num_damaged_.load());
  constexpr std::string_view kAge = "kvgate_shared_limit_age_seconds";
  writer.Family(kAge, "gauge", "Time since the use at other gateways was last known here.");
  const std::chrono::duration<double> age = SteadyClock::now() - shared_at_.load();
  writer.Sample(kAge, {}, age.count());
}

}  // namespace kvgate::runtime::limits
