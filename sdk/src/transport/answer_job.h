// AnswerJob: one request of a client on its way, whatever the transport: its time, its end, and
// that its reader hears of either.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/proxy/work/background.h"
#include "gateway/proxy/work/wake_signal.h"
#include "gateway/upstream/wire/timer.h"
#include "sdk/src/transport/channel.h"
#include "sdk/src/transport/transport.h"

namespace kvgate::sdk::transport {

using upstream::wire::Task;

// Everything runs on one executor, which runs one handler at a time.
class AnswerJob : public proxy::work::BackgroundJob,
                  public std::enable_shared_from_this<AnswerJob> {
 public:
  using Executor = boost::asio::any_io_executor;
  AnswerJob(const Executor& executor, Request request)
      : executor_(executor),
        request_(std::move(request)),
        channel_(std::make_shared<Channel>()),
        room_(executor),
        deadline_(executor) {}

  Task<void> Run() final;
  void Cancel() final;

 protected:
  // Makes the request; ends the channel unless it was given up.
  virtual Task<void> Answer() = 0;
  // Nobody wants the answer any more. Called once.
  virtual void GiveUp() = 0;

  const Executor& executor() const { return executor_; }
  Request& request() { return request_; }
  Channel& channel() { return *channel_; }
  bool is_given_up() const { return is_given_up_; }
  // Passes a piece on, and waits until there is room for more. False: nobody wants more.
  Task<bool> Pass(std::string_view piece);
  // Returns early if the request is given up.
  Task<void> Sleep(std::chrono::milliseconds time);

 private:
  friend std::shared_ptr<Channel> Begin(const std::shared_ptr<AnswerJob>& job,
                                        proxy::work::Background& requests);
  void End(kvgate_status status, std::string why);
  void Leave();

  const Executor executor_;
  Request request_;
  const std::shared_ptr<Channel> channel_;
  proxy::work::WakeSignal room_;
  upstream::wire::Timer deadline_;
  bool is_given_up_ = false;
};

// How many requests a transport has under way at once.
inline constexpr size_t kRequestsMax = 1 << 20;
// Starts a job among the requests of a transport; its answer comes through the channel. Fails that,
// if the transport is being closed.
std::shared_ptr<Channel> Begin(const std::shared_ptr<AnswerJob>& job,
                               proxy::work::Background& requests);

// The failure of a request that was given up for this reason.
Failure CancelledFailure();

}  // namespace kvgate::sdk::transport
