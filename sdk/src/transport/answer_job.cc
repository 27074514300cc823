#include "sdk/src/transport/answer_job.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <exception>
#include <new>
#include <utility>

#include "base/clock.h"

namespace kvgate::sdk::transport {

Failure CancelledFailure() {
  return {.status = KVGATE_CANCELLED, .message = "the request was cancelled"};
}

std::shared_ptr<Channel> Begin(const std::shared_ptr<AnswerJob>& job,
                               proxy::work::Background& requests) {
  const std::shared_ptr<Channel> channel = job->channel_;
  channel->OnReader(job->room_.MakeWake(), [weak = std::weak_ptr(job), executor = job->executor_] {
    boost::asio::post(executor, [weak] {
      if (const auto self = weak.lock()) self->Leave();
    });
  });
  if (!requests.Spawn(job, job->executor_)) {
    channel->Fail({.status = KVGATE_CANCELLED, .message = "the client is being closed"});
  }
  return channel;
}

Task<void> AnswerJob::Run() {
  if (request_.timeout.count() > 0) {
    deadline_.expires_after(request_.timeout);
    deadline_.async_wait([weak = weak_from_this()](const boost::system::error_code& code) {
      const auto self = weak.lock();
      if (code || self == nullptr) return;
      self->End(KVGATE_DEADLINE_EXCEEDED,
                fmt::format("no whole answer came within {} ms", self->request_.timeout.count()));
    });
  }
  std::string thrown;
  try {
    if (!is_given_up_) co_await Answer();
  } catch (const std::bad_alloc&) {
    thrown = "there is no memory for the answer";
  } catch (const std::exception& failure) {
    thrown = failure.what();
  }
  deadline_.cancel();
  channel_->OnReader(nullptr, nullptr);  // a reader may outlive this executor
  channel_->Fail({.status = KVGATE_INTERNAL,
                  .message = thrown.empty() ? "the request ended without an answer" : thrown});
}

void AnswerJob::Cancel() { End(KVGATE_CANCELLED, "the client was closed"); }

void AnswerJob::End(kvgate_status status, std::string why) {
  channel_->Fail({.status = status, .message = std::move(why)});
  Leave();
}

void AnswerJob::Leave() {
  if (std::exchange(is_given_up_, true)) return;
  room_.Wake();
  GiveUp();
}

Task<bool> AnswerJob::Pass(std::string_view piece) {
  channel_->Push(piece);
  while (!is_given_up_ && !channel_->has_room()) {
    co_await room_.SleepUntil(SteadyClock::now() + std::chrono::hours(1));
  }
  co_return !is_given_up_;
}

Task<void> AnswerJob::Sleep(std::chrono::milliseconds time) {
  const auto end = SteadyClock::now() + time;
  while (!is_given_up_ && SteadyClock::now() < end) co_await room_.SleepUntil(end);
}

}  // namespace kvgate::sdk::transport
