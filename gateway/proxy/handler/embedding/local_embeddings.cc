#include "gateway/proxy/handler/embedding/local_embeddings.h"

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "gateway/proxy/handler/embedding/embedding_answer.h"
#include "gateway/upstream/wire/trace_context.h"

namespace kvgate::proxy::handler::embedding {

using request::RequestContext;
using request::Response;
using request::Task;

namespace {

// Whoever sleeps looks around this often, although everything that happens wakes it.
constexpr std::chrono::milliseconds kLongestSleep{200};

using Started = Result<std::unique_ptr<EmbeddingAnswer>>;

Task<Started> Start(RequestContext& request) {
  const config::KeyConfig* const key = request.caller().key_config();
  const Result<ledger::Ledger*> ledger = request.environment().service.RequireLedger();
  const EmbeddingAnswer::Args args{
      .local = *request.environment().options.embeddings,
      .ledger = ledger ? *ledger : nullptr,
      .limits = {},
      .body = request.body().text(),
      .request_id = request.head().request_id,
      .tenant = request.caller().tenant(),
      .key = key == nullptr ? std::string_view() : std::string_view(key->name),
      .session = service::SessionOf(request.head().fields),
      .purpose = request.head().purpose,
      .caller_trace = upstream::wire::TraceOfCaller(request.head().fields),
      .prompt_tokens_max = key == nullptr ? 0 : key->prompt_tokens_max,
      .wake = request.sink().signal().MakeWake()};
  Started answer = MakeError(ErrorCode::kInternal, "proxy", "starting embeddings failed");
  std::function<void()> start = [&] { answer = EmbeddingAnswer::Start(args); };
  const Result<void> ran =
      co_await request.work().RunOn(request.work().pools().request, std::move(start));
  if (!ran) co_return ran.error();
  co_return answer;
}

// Waits for the vectors; returns false if they are to be given up.
Task<bool> Await(RequestContext& request, const EmbeddingAnswer& answer) {
  request::ResponseSink& sink = request.sink();
  request::Watcher watcher;
  sink.Watch(&watcher);
  while (!answer.is_done() && !sink.is_gone() && !sink.is_to_end()) {
    co_await sink.signal().SleepUntil(SteadyClock::now() + kLongestSleep);
  }
  sink.Watch(nullptr);
  co_return answer.is_done() && !sink.is_gone();
}

Task<Response> Finish(RequestContext& request, EmbeddingAnswer& answer) {
  Result<std::string> body = MakeError(ErrorCode::kInternal, "proxy", "embeddings failed");
  std::function<void()> finish = [&] { body = answer.Finish(); };
  const Result<void> ran =
      co_await request.work().RunOn(request.work().pools().request, std::move(finish));
  if (!ran) co_return request::ErrorResponse(ran.error());
  if (!body) co_return request::ErrorResponse(body.error());
  co_return Response{.body = std::move(*body)};
}

}  // namespace

Task<void> AnswerLocally(RequestContext& request) {
  if (const Result<void> admitted = request.Admit(request.scan().model); !admitted) {
    Error error = admitted.error();
    co_await request.Refuse(std::move(error));
    co_return;
  }
  if (request.body().is_encoded() && !request.body().is_decoded()) {
    Response refusal = request::EncodingResponse(request.Header("content-encoding"),
                                                 request.environment().options.body_bytes_max);
    co_await request.Reply(std::move(refusal));
    co_return;
  }
  request.body().TakeDecoded();
  Started answer = co_await Start(request);
  if (!answer) {
    Error error = answer.error();
    co_await request.Refuse(std::move(error));
    co_return;
  }
  request.body().Release();
  // The tokens are charged at once, because a client that leaves early has used them too.
  if (access::GatewayKeys::Key* const key = request.caller().key(); key != nullptr) {
    key->Spend((*answer)->num_tokens(), SteadyClock::now());
  }
  const bool is_there = co_await Await(request, **answer);
  if (!is_there) {
    co_await request::GiveUp(request);
    co_return;
  }
  Response response = co_await Finish(request, **answer);
  co_await request.Reply(std::move(response));
}

}  // namespace kvgate::proxy::handler::embedding
