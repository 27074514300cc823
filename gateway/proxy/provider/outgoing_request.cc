#include "gateway/proxy/provider/outgoing_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "gateway/proxy/provider/local_answer.h"
#include "gateway/proxy/work/body_pool.h"
#include "gateway/service/output_cap.h"
#include "gateway/telemetry/otlp/span.h"
#include "gateway/upstream/exchange_observer.h"
#include "gateway/upstream/wire/content_decoder.h"
#include "gateway/upstream/wire/trace_context.h"

namespace kvgate::proxy::provider {

using request::RequestContext;
using request::Task;
using upstream::wire::HeaderFields;

namespace {

// A larger body is hashed on a worker, so that its answer need not wait; hashing takes one core a
// millisecond for 1.7 MB.
constexpr size_t kHashedHereBytes = 256 * 1024;
constexpr size_t kSharedBytesMax = size_t{8} << 20;
// A larger body is translated or edited on a worker; 300 KB that are all new take about a
// millisecond.
constexpr size_t kMadeHereBytes = 256 * 1024;
// Waiting is better than sending a conversation without what it has sent before, which costs its
// cached prefix. It happens once for each conversation.
constexpr std::chrono::seconds kRecallTime{2};
constexpr std::string_view kTraceparent = "traceparent";

// Adds a field, or an item to the list in a field that is there. `lists` holds the new values, and
// has room for one.
void AddField(std::string_view name, std::string_view value, std::vector<std::string>& lists,
              HeaderFields& fields, HeaderFields& added) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& field) {
    return upstream::wire::SameName(field.name, name);
  });
  if (found == fields.end()) {
    added.push_back({name, value});
  } else if (found->value.find(value) == std::string_view::npos) {
    found->value = lists.emplace_back(std::string(found->value) + "," + std::string(value));
  }
}

// Returns the traceparent of the request's span; empty if it is none, so that the caller's passes.
std::string OwnTraceparent(const RequestContext& request) {
  if (!request.environment().options.has_spans) return "";
  if (!telemetry::otlp::IsSpan(request.kind().endpoint)) return "";
  const request::RequestHead& head = request.head();
  return upstream::wire::TraceparentOf(
      upstream::wire::OwnTrace(head.request_id, upstream::wire::TraceOfCaller(head.fields)));
}

}  // namespace

Task<Result<void>> OutgoingRequest::Build(ExchangeAccount* account) {
  RequestContext& request = args_.request;
  if (args_.is_renamed && request.scan().model_end != 0) {
    std::function<void()> rename = [this, &request] {
      made_ = upstream::WithModel(request.body().text(), request.scan(), args_.model);
    };
    co_await request.work().RunSized(request.body().bytes().size(), std::move(rename));
  }
  if (upstream::TranslatedEndpoint(request.kind().endpoint, args_.upstream)) {
    const Result<void> translated = co_await Translate(account);
    if (!translated) co_return translated;
  }
  const Result<void> edited = co_await Edit(account);
  co_return edited;
}

Task<Result<void>> OutgoingRequest::Translate(ExchangeAccount* account) {
  RequestContext& request = args_.request;
  if (request.body().is_encoded() && !request.body().is_decoded()) {
    co_return MakeError(ErrorCode::kUnsupported, "translate",
                        "The body cannot be read in its Content-Encoding, and the model's upstream "
                        "speaks another dialect.");
  }
  if (const Result<void> framing = CheckFraming(request); !framing) co_return framing.error();
  Result<std::unique_ptr<Translation>> translated =
      MakeError(ErrorCode::kInternal, "translate", "translating failed");
  std::function<void()> work = [&] {
    translated = Translation::Make(
        {.endpoint = request.kind().endpoint,
         .upstream = args_.upstream,
         .model = args_.model,
         .stream = request.place().route == request::Route::kStreamContent,
         .body = text(),
         .credential = request.caller().provider_credential(),
         .output = service::OutputLimitOf(request.caller().key_config(), request.head().fields)});
  };
  if (text().size() < kMadeHereBytes) {
    work();
  } else {
    const Result<void> ran =
        co_await request.work().RunOn(request.work().pools().request, std::move(work));
    if (!ran) translated = ran.error();
  }
  if (!translated) co_return std::move(translated).error();
  translation_ = std::move(*translated);
  made_ = translation_->TakeBody();
  SayLeftOut();
  if (account != nullptr) {
    account->observer().OnTranslated(translation_->sent_endpoint(), translation_->left_out());
  }
  co_return Result<void>();
}

// The left-out parts are named in each answer's head, but logged only once a conversation.
void OutgoingRequest::SayLeftOut() const {
  RequestContext& request = args_.request;
  const std::vector<std::string>& left_out = translation_->left_out();
  request.notes().left_out = fmt::format("{}", fmt::join(left_out, ", "));
  for (const std::string& what : left_out) {
    if (!request.environment().service.IsFirstNotice(request.caller().tenant(),
                                                     translation_->opening(), what)) {
      continue;
    }
    KVGATE_LOG(kWarning, "proxy",
               "request {}: the dialect of '{}' has no '{}': requests of this conversation go "
               "without it",
               request.head().request_id, args_.upstream.name(), what);
  }
}

void OutgoingRequest::SayHeld() const {
  if (!prompt_.holds) return;
  constexpr std::string_view kWhat = "held_stale";
  RequestContext& request = args_.request;
  std::string& left_out = request.notes().left_out;
  if (left_out.find(kWhat) != std::string::npos) return;
  left_out += (left_out.empty() ? "" : ", ") + std::string(kWhat);
  if (!request.environment().service.IsFirstNotice(request.caller().tenant(), prompt_.conversation,
                                                   kWhat)) {
    return;
  }
  KVGATE_LOG(
      kWarning, "proxy",
      "request {}: no text of it can take the new values of lines that have left the prompt; "
      "'{}' keeps the earlier ones until one can",
      request.head().request_id, args_.upstream.name());
}

bool OutgoingRequest::MayBeRefusal(int status) const {
  constexpr int kBadRequest = 400;
  constexpr int kForbidden = 403;
  constexpr int kNotFound = 404;
  if (status == kBadRequest) return prompt_.may_be_refused || prompt_.names_cache;
  // A cache that has expired, or that this credential may not read.
  return prompt_.names_cache && (status == kForbidden || status == kNotFound);
}

std::shared_ptr<upstream::ExchangePreparation> OutgoingRequest::Withdraw() {
  if (prompt_.preparation) service::Prompts::Withdraw(*prompt_.preparation);
  return prompt_.preparation;
}

// Examines how much of the prompt the upstream's cache can hold and makes the body to be sent.
Task<Result<void>> OutgoingRequest::Edit(ExchangeAccount* account) {
  RequestContext& request = args_.request;
  has_own_encoding_ = made_.empty();
  const bool is_encoded = request.body().is_encoded();
  const std::string credential = request.caller().SentCredential(&args_.upstream);
  const service::Prompts::Args args{
      .body = text(),
      .layout = made_.empty() ? request.layout() : nullptr,
      .encoded = is_encoded && made_.empty(),
      .endpoint = translation_ ? translation_->sent_endpoint() : request.kind().endpoint,
      .model = args_.model,
      .tenant = request.caller().tenant(),
      .upstream = args_.upstream.config(),
      .provider = args_.upstream.provider(),
      .key = request.caller().key_config(),
      .fields = request.head().fields,
      .credential = credential,
      .no_system_turn = args_.no_system_turn,
      .begins_anew = args_.request.notes().compaction.starts_with("done")};
  service::Prompts* const prompts = request.environment().options.prompts;
  const bool is_readable = request.scan().readable;
  if (!service::HasAnswer(args.endpoint) || !is_readable || prompts == nullptr) {
    if (!made_.empty()) sent_ = std::make_shared<const std::string>(std::move(made_));
    co_return is_readable ? Result<void>() : service::Prompts::CheckUnread(args);
  }
  Result<service::Prompts::Prompt> prompt = co_await Prepare(*prompts, args);
  if (!prompt) co_return std::move(prompt).error();
  prompt_ = *std::move(prompt);
  SayHeld();
  if (prompt_.body) {
    has_own_encoding_ = has_own_encoding_ && !is_encoded;
    sent_ = std::make_shared<const std::string>(std::move(*prompt_.body));
  } else if (!made_.empty()) {
    sent_ = std::make_shared<const std::string>(std::move(made_));
  }
  if (sent_) {
    const Result<void> fits =
        request.body().lease().GrowTo(request.body().lease().bytes() + sent_->size());
    if (!fits) co_return fits;
  }
  if (account != nullptr && prompt_.preparation) {
    account->observer().OnPrepared(prompt_.preparation);
  }
  co_await Keep(*prompts);
  co_return Result<void>();
}

Task<Result<service::Prompts::Prompt>> OutgoingRequest::PrepareOnce(service::Prompts& prompts,
                                                                    service::Prompts::Args args) {
  Result<service::Prompts::Prompt> prompt = service::Prompts::Prompt();
  std::function<void()> work = [&] { prompt = prompts.Prepare(args); };
  if (args.body.size() < kMadeHereBytes) {
    work();
  } else {
    work::WorkRunner& runner = args_.request.work();
    const Result<void> ran = co_await runner.RunOn(runner.pools().request, std::move(work));
    if (!ran) co_return ran.error();
  }
  co_return prompt;
}

Task<Result<service::Prompts::Prompt>> OutgoingRequest::Prepare(service::Prompts& prompts,
                                                                service::Prompts::Args args) {
  Result<service::Prompts::Prompt> prompt = co_await PrepareOnce(prompts, args);
  if (!prompt || !prompt->recall) co_return prompt;
  // If this fails, the conversation's state counts as lost.
  work::WorkRunner& runner = args_.request.work();
  std::function<void()> recall = std::move(prompt->recall);
  (void)co_await runner.RunUntil(runner.pools().store, std::move(recall),
                                 work::WorkRunner::Clock::now() + kRecallTime);
  args.is_recalled = true;
  // An order is given once.
  std::optional<service::explicit_cache::CacheOrder> order = std::move(prompt->order);
  prompt = co_await PrepareOnce(prompts, args);
  if (prompt && order) prompt->order = std::move(order);
  co_return prompt;
}

Task<void> OutgoingRequest::Keep(service::Prompts& prompts) {
  if (!prompt_.write) co_return;
  const service::branches::BranchStore::Write write = *std::exchange(prompt_.write, std::nullopt);
  work::WorkRunner& runner = args_.request.work();
  std::function<void()> commit = [&prompts, write] { prompts.Commit(write); };
  // If it is not posted, it is not done either.
  (void)co_await runner.RunUntil(runner.pools().store, std::move(commit),
                                 work::WorkRunner::Clock::now() + write.patience);
  prompts.GoOut(write);
}

// A model that has another name at its upstream stands in the path of Gemini's API.
std::string OutgoingRequest::Target() const {
  if (translation_) return std::string(translation_->path());
  const RequestContext& request = args_.request;
  const std::string_view target = request.head().target;
  if (!args_.is_renamed || !request::IsGemini(request.place().route)) return std::string(target);
  return request::WithModel(target, args_.model);
}

std::string OutgoingRequest::Head() const {
  const RequestContext& request = args_.request;
  const upstream::Upstream& upstream = args_.upstream;
  HeaderFields added;
  HeaderFields own;  // most requests go out with the fields that they came with
  const std::string traceparent = OwnTraceparent(request);
  const bool has_own = translation_ || !prompt_.headers.empty() || !traceparent.empty();
  if (translation_) {
    added = translation_->added();
    own = translation_->FieldsOf(request.head().fields);
  } else if (has_own) {
    own = request.head().fields;
  }
  std::vector<std::string> lists;
  lists.reserve(prompt_.headers.size());
  for (const auto& [name, value] : prompt_.headers) AddField(name, value, lists, own, added);
  if (!traceparent.empty()) {
    std::erase_if(own, [](const upstream::wire::HeaderField& field) {
      return upstream::wire::SameName(field.name, kTraceparent);
    });
    added.push_back({.name = kTraceparent, .value = traceparent});
  }
  const std::string target =
      upstream::wire::UpstreamTarget(upstream.url().path, upstream.dialect(), Target());
  const bool lends_key = translation_ && upstream.api_key().empty();
  return upstream::wire::RequestHead(
      {.method = request.head().method,
       .target = target,
       .host = upstream.host(),
       .fields = has_own ? own : request.head().fields,
       .body_bytes = body().size(),
       .added = added,
       .drop_encoding = !has_own_encoding_,
       .drop_accept_encoding = request::ReadsAnswer(args_.request) || translation_,
       .api_key = lends_key ? std::string_view(translation_->credential()) : upstream.api_key(),
       .dialect = upstream.dialect(),
       .drop_credential = request.caller().key_is_credential()});
}

// Shares nothing while too many shared bytes are waiting: if the workers cannot keep up, the
// sender's own thread hashes, which delays only the sender.
std::shared_ptr<const std::string> OutgoingRequest::Share() {
  RequestContext& request = args_.request;
  const auto& waiting = request.environment().shared_body_bytes;
  if (request.body().bytes().size() < kHashedHereBytes || waiting->load() >= kSharedBytesMax) {
    return nullptr;
  }
  auto* const body = new std::string(std::move(request.body().bytes()));
  *waiting += body->size();
  shared_ = {body, [bytes = waiting](std::string* done) {
               *bytes -= done->size();
               work::ReturnBody(std::move(*done));
               delete done;
             }};
  return shared_;
}

Task<void> OutgoingRequest::GiveBack() {
  if (!shared_) co_return;
  std::function<void()> copy = [this] { args_.request.body().bytes() = *shared_; };
  co_await args_.request.work().RunSized(shared_->size(), std::move(copy));
}

void OutgoingRequest::Release() {
  shared_.reset();
  sent_.reset();
  args_.request.body().Release();
}

}  // namespace kvgate::proxy::provider
