// InProcessJob: a request that goes to the gateway of this process, with the client's channel as
// the sink of its answer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/proxy/host/host.h"
#include "gateway/proxy/request/request_context.h"
#include "gateway/proxy/request/response_sink.h"
#include "sdk/src/transport/answer_job.h"

namespace kvgate::sdk::transport {

// What a channel hears of an answer. Used on the loop of its request.
class ChannelSink final : public proxy::request::ResponseSink {
 public:
  // `pass` gives a piece to the reader and returns false if nobody wants more.
  using Pass = std::function<Task<bool>(std::string_view piece)>;
  ChannelSink(const Executor& executor, Channel& channel, Pass pass)
      : ResponseSink(executor), channel_(channel), pass_(std::move(pass)), tick_(executor) {}

  // Keeps what the sink is a part of alive while a tick is pending.
  void SetOwner(std::weak_ptr<void> owner) { owner_ = std::move(owner); }
  void Leave() { SetLeft(); }
  // No more ticks.
  void Stop();

  Task<bool> Send(proxy::request::Response response, proxy::request::ReplyInfo info) override;
  void Begin(const proxy::request::AnswerHead& head) override;
  Task<bool> Write(std::string_view piece, bool is_last) override;
  void Cut() override;

 private:
  void OnWatch() override;

  Channel& channel_;
  const Pass pass_;
  std::weak_ptr<void> owner_;
  upstream::wire::Timer tick_;
  bool is_ticking_ = false;
};

class InProcessJob final : public AnswerJob {
 public:
  // `host` outlives the job. With a token the caller is an admin of it.
  InProcessJob(const Executor& executor, proxy::host::Host& host, std::string admin_token,
               Request request);

 private:
  Task<void> Answer() override;
  void GiveUp() override { sink_.Leave(); }
  proxy::request::RequestHead HeadOf();
  // Refuses a body that is too large, or finds no memory.
  Result<void> TakeBody(proxy::request::RequestContext& context);

  proxy::host::Host& host_;
  const std::string admin_token_;
  std::string target_;
  ChannelSink sink_;
};

}  // namespace kvgate::sdk::transport
