#include "gateway/proxy/provider/local_answer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/gemini/gemini_request.h"
#include "gateway/proxy/request/query.h"
#include "gateway/service/output_cap.h"

namespace kvgate::proxy::provider {

using request::RequestContext;
using request::Response;
using service::Completion;

namespace {

using Clock = SteadyClock;

// Whoever sleeps looks around this often, although everything that happens wakes it.
constexpr std::chrono::milliseconds kLongestSleep{200};

Clock::time_point NextLook(Clock::time_point at_latest) {
  return std::min(at_latest, Clock::now() + kLongestSleep);
}

}  // namespace

LocalAnswer::LocalAnswer(RequestContext& request, Options options)
    : request_(request), options_(options) {}

LocalAnswer::~LocalAnswer() { request_.sink().Watch(nullptr); }

void LocalAnswer::OnEnd() {
  if (completion_ && !is_settled_) completion_->Cancel();
}

Task<Result<void>> LocalAnswer::Start() {
  if (request_.kind().endpoint == dialect::form::Endpoint::kGenerateContent) {
    Result<dialect::TranslatedRequest> translated = co_await TranslateForEngine(request_);
    if (!translated) co_return std::move(translated).error();
    translated_ = std::move(*translated);
  }
  const config::KeyConfig* const key = request_.caller().key_config();
  const std::string credential = request_.caller().credential();
  const service::Service::StartArgs args{
      .dialect = translated_ ? dialect::form::Dialect::kChatCompletions
                             : dialect::form::DialectOf(request_.kind().endpoint),
      .answer_dialect = translated_ ? std::optional(dialect::form::Dialect::kGemini) : std::nullopt,
      .thoughts = !translated_ || translated_->thoughts,
      .body = translated_ ? std::string_view(translated_->body) : request_.body().text(),
      .credential = credential,
      .request_id = request_.head().request_id,
      .tenant = request_.caller().tenant(),
      .purpose = request_.head().purpose,
      .named_prompt = request_.notes().prompt,
      .explain = request::Explains(request_),
      .any_model = options_.any_model,
      .has_next = options_.has_next,
      .prompt_tokens_max = key == nullptr ? 0 : key->prompt_tokens_max,
      .output = service::OutputLimitOf(key, request_.head().fields),
      .prompt = service::Service::PromptArgs{.engine = request_.targets().engine,
                                             .key = key,
                                             .fields = request_.head().fields,
                                             .layout = request_.layout()},
      .wake = request_.sink().signal().MakeWake()};
  service::CompletionStart start(request_.environment().service, args);
  co_await DriveStart(request_, start);
  Result<std::unique_ptr<Completion>> completion = start.Take();
  if (!completion) co_return completion.error();
  completion_ = std::move(*completion);
  // There was nothing to cancel until now.
  if (request_.sink().is_to_end()) completion_->Cancel();
  co_return Result<void>();
}

Task<Begun> LocalAnswer::Begin() {
  last_piece_ = Clock::now();
  request_.sink().Watch(this);
  const Result<void> started = co_await Start();
  if (!started) {
    const Error& error = started.error();
    if (options_.has_next && service::IsOverload(error)) {
      KVGATE_LOG(kWarning, "proxy", "request {}: {}; the next target is asked",
                 request_.head().request_id, error.detail);
      co_return Begun{.kind = Begun::Kind::kNext};
    }
    Begun refused = Whole({.bytes = {}, .error = error});
    co_return refused;
  }
  // The body has been parsed, so it is not held during a long answer.
  request_.body().Release();
  request_.notes().left_out = completion_->left_out();
  if (translated_) {
    for (const std::string& what : translated_->left_out) {
      if (!request_.notes().left_out.empty()) request_.notes().left_out += ", ";
      request_.notes().left_out += what;
    }
    translated_.reset();
  }
  request_.notes().kept = completion_->session();
  if (!completion_->compaction().empty()) request_.notes().compaction = completion_->compaction();
  if (completion_->streaming()) {
    last_piece_ = Clock::now();
    Begun begun = co_await BeginStream();
    co_return begun;
  }
  Begun begun = co_await BeginWhole();
  co_return begun;
}

Task<Begun> LocalAnswer::BeginWhole() {
  while (!request_.sink().is_gone()) {
    Completion::Output output = co_await TakeOutput();
    if (output.finished) {
      Settle();
      is_finished_ = true;
      Begun whole = Whole(std::move(output));
      co_return whole;
    }
    co_await request_.sink().signal().SleepUntil(NextLook(Clock::time_point::max()));
  }
  co_return Begun{.kind = Begun::Kind::kLeft};
}

// The head goes out with the first event, or when the client has waited for head_delay; an error
// that comes before keeps its own status.
Task<Begun> LocalAnswer::BeginStream() {
  const Clock::time_point silent_until = last_piece_ + request_.environment().options.head_delay;
  while (!request_.sink().is_gone()) {
    Completion::Output output = co_await TakeOutput();
    if (output.error || output.finished) Settle();
    if (output.error) {
      is_finished_ = true;
      Begun whole = Whole(std::move(output));
      co_return whole;
    }
    const bool is_due = Clock::now() >= silent_until;
    text_ = std::move(output.bytes);
    if (text_.empty() && !output.finished && is_due) text_ = completion_->Begin();
    if (!text_.empty() || output.finished || is_due) {
      has_head_ = is_first_due_ = true;
      is_finished_ = output.finished;
      co_return Begun{.kind = Begun::Kind::kPieces,
                      .head = {.kind = request::AnswerHead::Kind::kEvents,
                               .info = request_.Info(),
                               .ping = completion_->ping()}};
    }
    co_await request_.sink().signal().SleepUntil(NextLook(silent_until));
  }
  co_return Begun{.kind = Begun::Kind::kLeft};
}

Task<Result<Piece>> LocalAnswer::Next() {
  if (std::exchange(is_first_due_, false)) {
    last_piece_ = Clock::now();
    co_return Piece{.bytes = text_, .is_last = is_finished_};
  }
  const auto ping_interval = request_.environment().options.ping_interval;
  while (!request_.sink().is_gone()) {
    Completion::Output output = co_await TakeOutput();
    if (output.error || output.finished) Settle();
    if (output.error) co_return std::move(*output.error);
    text_ = std::move(output.bytes);
    if (text_.empty() && !output.finished && Clock::now() >= last_piece_ + ping_interval) {
      text_ = completion_->ping();
    }
    if (!text_.empty() || output.finished) {
      last_piece_ = Clock::now();
      is_finished_ = output.finished;
      co_return Piece{.bytes = text_, .is_last = output.finished};
    }
    co_await request_.sink().signal().SleepUntil(NextLook(last_piece_ + ping_interval));
  }
  co_return MakeError(ErrorCode::kCancelled, "proxy", "The client left.");
}

void LocalAnswer::End(Fate fate) {
  const bool is_cancelled = request_.sink().is_cancelled();
  if (fate == Fate::kClientLeft && !is_finished_) {
    if (!is_cancelled) request_.environment().service.metrics().client_disconnects.Add();
    if (!has_head_) request_.Count(is_cancelled ? 503 : 499);
  }
  request_.sink().Watch(nullptr);
  completion_.reset();
}

// Writes what an answer stores on a worker, before its last bytes go out.
Task<Completion::Output> LocalAnswer::TakeOutput() {
  Completion::Output output = completion_->Next();
  if (!output.completed) co_return output;
  auto kept = std::make_shared<Result<void>>();
  std::function<void()> work = [hooks = completion_->TakeHooks(), kept] { *kept = hooks(); };
  const Result<void> ran =
      co_await request_.work().RunOnDisk(request_.work().pools().store, std::move(work));
  completion_->EndHooks(ran ? *kept : ran);
  Completion::Output rest = completion_->Next();
  if (!rest.error) rest.bytes.insert(0, output.bytes);
  co_return rest;
}

void LocalAnswer::Settle() {
  if (std::exchange(is_settled_, true)) return;
  request_.notes().kv_block = completion_->last_stored_block();
  if (access::GatewayKeys::Key* const key = request_.caller().key(); key != nullptr) {
    key->Spend(completion_->num_tokens(), Clock::now());
  }
}

// One whole response: the answer, or an error that came before any of it.
Begun LocalAnswer::Whole(Completion::Output output) {
  if (output.error && dialect::form::HttpStatus(output.error->code) == 500) {
    KVGATE_LOG(kError, "proxy", "request {}: {}", request_.head().request_id,
               output.error->ToString());
  }
  Response response = output.error ? request::ErrorResponse(*output.error)
                                   : Response{.status = 200, .body = std::move(output.bytes)};
  return {.kind = Begun::Kind::kWhole, .head = {}, .response = std::move(response)};
}

Result<void> CheckFraming(const RequestContext& request) {
  const bool wants_events = request::QueryValue(request.head().target, "alt") == "sse";
  if (request.place().route != request::Route::kStreamContent || wants_events) return {};
  return MakeError(ErrorCode::kUnsupported, "translate",
                   "streamGenerateContent is answered with events by this model: ask for them by "
                   "alt=sse in the query.",
                   "alt");
}

Task<Result<dialect::TranslatedRequest>> TranslateForEngine(RequestContext& request) {
  if (const Result<void> framing = CheckFraming(request); !framing) co_return framing.error();
  Result<dialect::TranslatedRequest> translated =
      MakeError(ErrorCode::kInternal, "translate", "translating failed");
  const bool counts = request.place().counts_tokens();
  std::function<void()> work = [&] {
    const std::string_view body = request.body().text();
    translated = dialect::TranslateRequest(
        {.from = dialect::form::Dialect::kGemini,
         .to = dialect::form::Dialect::kChatCompletions,
         .body = counts ? dialect::gemini::CountedRequest(body) : body,
         .model = request.place().argument,
         .stream = request.place().route == request::Route::kStreamContent,
         .target = {.reasoning_content = true, .plain_names = true, .samplers = true}});
  };
  const Result<void> ran =
      co_await request.work().RunOn(request.work().pools().request, std::move(work));
  if (!ran) translated = ran.error();
  co_return translated;
}

Task<void> DriveStart(RequestContext& request, service::CompletionStart& start) {
  using Place = service::CompletionStart::Place;
  service::WorkPools& pools = request.work().pools();
  while (start.next() != Place::kNone) {
    if (start.next() == Place::kStore) {
      const auto patience = start.patience();
      std::function<void()> work = start.StoreWork();
      Result<void> done;
      if (patience) {
        done = co_await request.work().RunUntil(pools.store, std::move(work),
                                                work::WorkRunner::Clock::now() + *patience);
      } else {
        done = co_await request.work().RunOnDisk(pools.store, std::move(work));
      }
      start.EndStore(done);
      continue;
    }
    const Result<void> alive = pools.store.CheckAlive(request.caller().tenant());
    if (start.keeps() && !alive) {
      start.Fail(alive.error());
      continue;
    }
    std::function<void()> work = [&start] { start.Run(); };
    service::WorkQueue& pool = start.next() == Place::kCompile ? pools.compile : pools.request;
    const Result<void> ran = co_await request.work().RunOn(pool, std::move(work));
    if (!ran) start.Fail(ran.error());
  }
}

}  // namespace kvgate::proxy::provider
