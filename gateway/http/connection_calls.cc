// Serves requests for the gateway's own data: on the event loop if nothing has to be waited for,
// else on the threads that wait for the disk.
#include <chrono>
#include <utility>

#include "gateway/http/connection.h"
#include "gateway/http/message/message_rules.h"

namespace kvgate::http {
namespace {

using Clock = std::chrono::steady_clock;

// A request for numbers waits this long for fresh ones of the stores, then uses older ones.
constexpr std::chrono::milliseconds kNumbersTimeout{1'000};
constexpr std::chrono::milliseconds kNumbersPoll{5};

}  // namespace

socket::Task<bool> Connection::ServeCall(message::RouteMatch match) {
  auto response = std::make_shared<message::Response>(
      message::StatusResponse(500, "The server failed to answer."));
  Result<void> ran;
  if (match.route == message::Route::kExplain) {
    std::function<void()> work = [this, &response] { *response = HandleExplain(); };
    ran = co_await RunOn(context_.pools.request, std::move(work));
  } else {
    auto call = std::make_shared<ServiceCall>(
        ServiceCall{.service = context_.service,
                    .match = match,
                    .target = std::string(message::ToView(parser_->get().target())),
                    .body = std::move(parser_->get().body()),
                    .caller = WhoCalls(),
                    .request_id = request_id_,
                    .may_use = ModelFilter()});
    auto lease = std::make_shared<socket::BodyBudget::Lease>(std::move(lease_));
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
  message::Response answer = ran ? std::move(*response) : message::ErrorResponse(ran.error());
  const bool again = co_await Send(std::move(answer), match.name, match.openai_dialect);
  co_return again;
}

// Only one refresh runs at a time: on a disk that hangs, several would take all of its threads.
socket::Task<void> Connection::RefreshNumbers() {
  const Clock::time_point deadline = Clock::now() + kNumbersTimeout;
  while (context_.refreshing->exchange(true)) {
    if (Clock::now() >= deadline || cancelled_) co_return;
    waiter_.expires_after(kNumbersPoll);
    co_await waiter_.async_wait(socket::kAwait);
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
