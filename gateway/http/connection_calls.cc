// What the gateway keeps or tells: on the event loop where nothing has to be waited for, else on
// the threads that wait for the disk.
#include <chrono>
#include <utility>

#include "gateway/http/connection.h"

namespace kvgate::http {
namespace {

using Clock = std::chrono::steady_clock;

// How long who asks for numbers waits for those of the stores; older ones do as well.
constexpr std::chrono::milliseconds kNumbersTimeout{1'000};
constexpr std::chrono::milliseconds kNumbersPoll{5};

std::string_view ToView(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Task<bool> Connection::ServeCall(RouteMatch match) {
  auto response = std::make_shared<Response>(StatusResponse(500, "The server failed to answer."));
  Result<void> ran;
  if (match.route == Route::kExplain) {
    std::function<void()> work = [this, &response] { *response = HandleExplain(); };
    ran = co_await RunOn(context_.pools.request, std::move(work));
  } else {
    auto call = std::make_shared<ServiceCall>(
        ServiceCall{.service = context_.service,
                    .match = match,
                    .target = std::string(ToView(parser_->get().target())),
                    .body = std::move(parser_->get().body()),
                    .caller = WhoCalls(),
                    .request_id = request_id_,
                    .may_use = ModelFilter()});
    auto lease = std::make_shared<BodyBudget::Lease>(std::move(lease_));
    const CallPlace place = PlaceOf(match.route);
    std::function<void()> work = [call, response, lease] { *response = Answer(*call); };
    if (place == CallPlace::kStore || place == CallPlace::kBulk) {
      service::WorkQueue& pool =
          place == CallPlace::kStore ? context_.pools.store : context_.pools.bulk;
      ran = co_await RunOnDisk(pool, std::move(work), call->steps);
    } else {
      if (place == CallPlace::kKnown) co_await RefreshNumbers();
      work();
    }
  }
  Response answer = ran ? std::move(*response) : ErrorResponse(ran.error());
  const bool again = co_await Send(std::move(answer), match.name, match.openai_dialect);
  co_return again;
}

// One at a time for all who ask: on a disk that hangs they would take its threads.
Task<void> Connection::RefreshNumbers() {
  const Clock::time_point deadline = Clock::now() + kNumbersTimeout;
  while (context_.refreshing->exchange(true)) {
    if (Clock::now() >= deadline || cancelled_) co_return;
    waiter_.expires_after(kNumbersPoll);
    co_await waiter_.async_wait(kAwait);
  }
  std::function<void()> work = [&service = context_.service, refreshing = context_.refreshing] {
    service.RefreshStores();
    refreshing->store(false);
  };
  const Result<std::shared_ptr<Job>> job = PostJob(context_.pools.store, std::move(work));
  if (!job) {
    context_.refreshing->store(false);
    co_return;
  }
  co_await Await(**job, deadline);
}

}  // namespace kvgate::http
