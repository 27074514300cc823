// OwnRequests: requests that the gateway makes itself, in the name of a caller and with the fields
// of a request of that caller's, unless they are about something else. They are answered to a sink
// that keeps the answer, and go the way of all others. In the background they have no credential of
// the caller's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/proxy/handler/handler.h"
#include "gateway/upstream/wire/timer.h"

namespace kvgate::proxy::handler {

// Keeps an answer. It must be owned by a shared_ptr.
class KeepingSink final : public request::ResponseSink,
                          public std::enable_shared_from_this<KeepingSink> {
 public:
  explicit KeepingSink(const Executor& executor) : ResponseSink(executor), tick_(executor) {}

  int status = 0;  // 502: it broke off
  std::string body;
  // Takes the pieces of an answer of status 200 instead of `body`; false if no more are wanted.
  std::function<Task<bool>(std::string_view piece)> pass;
  void Cancel() { SetCancelled(); }
  // For the next request.
  void Clear();

  Task<bool> Send(request::Response response, request::ReplyInfo info) override;
  void Begin(const request::AnswerHead& head) override { status = head.status; }
  Task<bool> Write(std::string_view piece, bool is_last) override;
  void Cut() override { status = 502; }

 private:
  void OnWatch() override;

  upstream::wire::Timer tick_;
};

// Watches the client for whose answer such a request is made: the request ends when it leaves, or
// the server wants answers to end.
class Leaving final : public request::Watcher {
 public:
  explicit Leaving(KeepingSink& sink) : sink_(sink) {}

 private:
  void OnGone() override { sink_.Cancel(); }
  void OnEnd() override { sink_.Cancel(); }

  KeepingSink& sink_;
};

class OwnRequests {
 public:
  // Which of the request's fields they have: kTrace only what names its trace, because another
  // model is asked, of another provider.
  enum class Fields : uint8_t { kAll, kTrace };
  // `request` is one of the caller's, and need not outlive this if they are in the background. They
  // go to those targets that are current when this is made.
  OwnRequests(const RequestContext& request, bool is_background, Fields fields = Fields::kAll);

  void Add(std::string_view name, std::string value) { fields_.emplace_back(name, value); }
  // A POST to a path of the gateway's, to the sink. One at a time; `target` and this must outlive
  // it.
  std::unique_ptr<RequestContext> Open(std::string_view target, std::string_view purpose);

  // Answers one that was opened, and gives it up when the client of `client` leaves, for whose
  // answer it is made. Not in the background.
  Task<void> Serve(const Handler& handler, RequestContext& context, request::ResponseSink& client);

  request::Environment& environment() const { return environment_; }
  KeepingSink& sink() const { return *sink_; }

 private:
  request::Environment& environment_;
  const std::shared_ptr<const request::Targets> targets_;
  const request::Caller caller_;
  const bool is_loopback_;
  std::vector<std::pair<std::string, std::string>> fields_;
  const std::shared_ptr<KeepingSink> sink_;
};

}  // namespace kvgate::proxy::handler
