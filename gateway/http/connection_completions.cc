// Answers of the local model: streamed, whole, or only counted.
#include <chrono>
#include <utility>

#include "base/log.h"
#include "gateway/http/connection.h"
#include "gateway/protocol/form/errors.h"

namespace kvgate::http {

using message::Response;
using message::Route;
using message::RouteMatch;
using socket::Task;

namespace {

using Clock = std::chrono::steady_clock;

protocol::form::Dialect DialectOf(Route route) {
  switch (route) {
    case Route::kCompletions:
      return protocol::form::Dialect::kCompletions;
    case Route::kMessages:
    case Route::kCountTokens:
      return protocol::form::Dialect::kMessages;
    case Route::kResponses:
    case Route::kInputTokens:
      return protocol::form::Dialect::kResponses;
    default:
      return protocol::form::Dialect::kChatCompletions;
  }
}

}  // namespace

Task<std::optional<bool>> Connection::ServeCompletion(RouteMatch match, LocalTurn turn) {
  const std::string credential = Credential();
  if (match.route == Route::kCountTokens || match.route == Route::kInputTokens) {
    const bool again = co_await ServeTokenCount(std::move(match));
    co_return again;
  }
  const service::Service::StartArgs args{
      .dialect = DialectOf(match.route),
      .body = decoded_ ? *decoded_ : parser_->get().body(),
      .credential = credential,
      .request_id = request_id_,
      .tenant = Tenant(),
      .explain = Header("x-kvgate-explain") == "1",
      .any_model = turn.any_model,
      .has_next = turn.has_next,
      .prompt_tokens_max = key_ == nullptr ? 0 : key_->config().prompt_tokens_max,
      .output =
          service::OutputLimitOf(key_ == nullptr ? nullptr : &key_->config(), RequestFields()),
      .wake = MakeWake()};
  service::CompletionStart start(context_.service, args);
  co_await DriveStart(start);
  Result<std::unique_ptr<service::Completion>> completion = start.Take();
  if (!completion && turn.has_next && service::IsOverload(completion.error())) {
    KVGATE_LOG(kWarning, "http", "request {}: {}; the next target is asked", request_id_,
               completion.error().detail);
    co_return std::nullopt;
  }
  if (!completion) {
    const Error& error = completion.error();
    if (protocol::form::HttpStatus(error.code) == 500) {
      KVGATE_LOG(kError, "http", "request {}: {}", request_id_, error.ToString());
    }
    Response response = message::ErrorResponse(error);
    const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
    co_return again;
  }
  // The body has been parsed, so it is not held during a long answer.
  decoded_.reset();
  ReleaseBody();
  completion_ = completion->get();
  left_out_ = completion_->left_out();
  bool again = false;
  if (completion_->streaming()) {
    again = co_await SendStream(*completion_, std::move(match));
  } else {
    again = co_await SendWhole(*completion_, std::move(match));
  }
  Settle();
  co_return again;
}

// Runs each step on the pool that it needs. An answer that is to be stored is not begun while the
// disk is known not to answer.
Task<void> Connection::DriveStart(service::CompletionStart& start) {
  using Place = service::CompletionStart::Place;
  service::WorkPools& pools = context_.pools;
  while (start.next() != Place::kNone) {
    if (start.next() == Place::kStore) {
      std::function<void()> work = start.StoreWork();
      const Result<void> done = co_await RunOnDisk(pools.store, std::move(work));
      start.EndStore(done);
      continue;
    }
    if (const Result<void> alive = pools.store.CheckAlive(Tenant()); start.keeps() && !alive) {
      start.Fail(alive.error());
      continue;
    }
    std::function<void()> work = [&start] { start.Run(); };
    service::WorkQueue& pool = start.next() == Place::kCompile ? pools.compile : pools.request;
    const Result<void> ran = co_await RunOn(pool, std::move(work));
    if (!ran) start.Fail(ran.error());
  }
}

Task<bool> Connection::ServeTokenCount(RouteMatch match) {
  const std::string credential = Credential();
  service::CompletionStart start(context_.service,
                                 {.dialect = DialectOf(match.route),
                                  .body = parser_->get().body(),
                                  .credential = credential,
                                  .request_id = {},
                                  .wake = {}},
                                 service::CompletionStart::Use::kCount);
  co_await DriveStart(start);
  Result<std::string> body = start.TakeCount();
  Response response =
      body ? Response{.body = std::move(*body)} : message::ErrorResponse(body.error());
  const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
  co_return again;
}

// Called before the last bytes go out, because the client's next request may arrive before this
// thread goes on.
void Connection::Settle() {
  if (completion_ == nullptr) return;
  if (key_ != nullptr) key_->Spend(completion_->num_tokens(), Clock::now());
  completion_ = nullptr;
}

// Writes what an answer stores on a worker, before its last bytes go out.
Task<service::Completion::Output> Connection::TakeOutput(service::Completion& completion) {
  service::Completion::Output output = completion.Next();
  if (!output.completed) co_return output;
  auto kept = std::make_shared<Result<void>>();
  std::function<void()> work = [hooks = completion.TakeHooks(), kept] { *kept = hooks(); };
  const Result<void> ran = co_await RunOnDisk(context_.pools.store, std::move(work));
  completion.EndHooks(ran ? *kept : ran);
  service::Completion::Output rest = completion.Next();
  if (!rest.error) rest.bytes.insert(0, output.bytes);
  co_return rest;
}

// The head goes out with the first event, or when the client has waited for head_delay; an error
// that comes before keeps its own status.
Task<bool> Connection::SendStream(service::Completion& completion, RouteMatch match) {
  const ServerOptions& options = context_.options;
  if (http_1_0_) keep_alive_ = false;
  const std::string ping = Frame(completion.ping());
  Clock::time_point last_write = Clock::now();
  bool head_sent = false;
  bool ping_due = false;
  bool there = true;
  while (there) {
    service::Completion::Output output = co_await TakeOutput(completion);
    if (output.error || output.finished) Settle();
    if (output.error) {
      const bool again = co_await SendOutput(std::move(output), std::move(match));
      co_return again;
    }
    std::string bytes = Frame(output.bytes);
    if (bytes.empty() && ping_due) bytes = head_sent ? ping : Frame(completion.Begin());
    if (!head_sent && (ping_due || output.finished || !bytes.empty())) {
      head_sent = true;
      Count(match.name, 200);
      bytes.insert(0, message::StreamHead(Head(match.openai_dialect)));
    }
    if (output.finished && !http_1_0_) bytes += "0\r\n\r\n";
    ping_due = false;
    if (!bytes.empty()) {
      last_write = Clock::now();
      there = co_await Write(std::move(bytes));
      if (output.finished) co_return there&& keep_alive_;
      continue;  // more output may have come during the write
    }
    if (output.finished) co_return keep_alive_;
    std::string probe;
    if (head_sent) {
      probe = ping;
    } else if (!http_1_0_) {
      probe = message::kContinue;
    }
    there = co_await WaitForProgress(std::move(probe));
    ping_due =
        Clock::now() - last_write >= (head_sent ? options.ping_interval : options.head_delay);
  }
  if (!cancelled_) context_.service.metrics().client_disconnects.Add();
  if (!head_sent) Count(match.name, cancelled_ ? 503 : 499);
  co_return false;
}

Task<bool> Connection::SendWhole(service::Completion& completion, RouteMatch match) {
  while (true) {
    service::Completion::Output output = co_await TakeOutput(completion);
    if (output.finished) {
      Settle();
      const bool again = co_await SendOutput(std::move(output), std::move(match));
      co_return again;
    }
    // An interim response is the only thing that may be sent before an answer; every HTTP/1.1
    // client skips this one.
    std::string probe;
    if (!http_1_0_) probe = message::kContinue;
    const bool there = co_await WaitForProgress(std::move(probe));
    if (!there) break;
  }
  if (!cancelled_) context_.service.metrics().client_disconnects.Add();
  Count(match.name, cancelled_ ? 503 : 499);
  co_return false;
}

// Sends one whole response: the answer, or an error that came before any of it.
Task<bool> Connection::SendOutput(service::Completion::Output output, RouteMatch match) {
  if (output.error && protocol::form::HttpStatus(output.error->code) == 500) {
    KVGATE_LOG(kError, "http", "request {}: {}", request_id_, output.error->ToString());
  }
  Response response = output.error ? message::ErrorResponse(*output.error)
                                   : Response{.status = 200, .body = std::move(output.bytes)};
  const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
  co_return again;
}

}  // namespace kvgate::http
