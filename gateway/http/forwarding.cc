// Forwarding of one request: an upstream is chosen and its answer is passed on as it arrives.
//
// While the upstream is awaited nobody reads the client's socket; a tick every poll_interval checks
// its state and the upstream's timeouts. A client that has shut down its sending side before the
// answer's head is probed once, as in WaitForProgress. One that does so after the head, when
// nothing may be added to the answer, counts as gone unless further requests of it are waiting.
#include "gateway/http/forwarding.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "gateway/http/connection.h"
#include "gateway/http/exchange_account.h"
#include "gateway/http/message/message_rules.h"
#include "gateway/http/socket/body_pool.h"
#include "gateway/protocol/form/response_items.h"
#include "gateway/service/prompts.h"
#include "gateway/upstream/exchange_observer.h"
#include "gateway/upstream/wire/content_decoder.h"

namespace kvgate::http {

using message::Response;
using message::Route;
using message::RouteMatch;
using message::ToView;
using socket::Task;

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Clock = std::chrono::steady_clock;
using upstream::Exchange;
using upstream::ExchangeOutcome;

// A larger body is hashed on a worker, so that its answer need not wait; hashing takes one core a
// millisecond for 1.7 MB.
constexpr size_t kHashedHereBytes = 256 * 1024;
constexpr size_t kSharedBytesMax = size_t{8} << 20;
// A larger body is prepared on a worker; one that is all new takes about a millisecond for 300 KB.
constexpr size_t kPreparedHereBytes = 256 * 1024;

// An encoded error up to this size is buffered, so that it can be searched for the operator's key.
constexpr size_t kFailureBytesMax = size_t{1} << 20;

constexpr std::string_view kLastChunk = "0\r\n\r\n";

int StatusOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kUnavailable:
      return 502;
    case ErrorCode::kDeadline:
      return 504;
    default:
      return 503;
  }
}

}  // namespace

// Checks all upstreams, because the one to ask is known only after the body, which names the model,
// is read.
bool Connection::ForwardsUnknown(std::string_view target) const {
  const auto& all = targets_->upstreams->all();
  return message::PathOf(target).starts_with("/v1/") &&
         std::any_of(all.begin(), all.end(),
                     [this](const auto& upstream) { return MaySendUnknown(*upstream); });
}

bool Connection::IsForwarded(const RouteMatch& match) const {
  if (match.route == Route::kForwarded) return true;
  if (message::IsKept(match.route)) return !targets_->upstreams->empty() && IsForeign(match);
  if (match.route == Route::kEmbeddings) return !targets_->upstreams->empty();
  return match.route == Route::kModel && !targets_->upstreams->empty() &&
         !context_.service.ServesLocal(match.argument);
}

// Returns true if an upstream keeps the object; ids minted by this gateway belong to the gateway.
bool Connection::IsForeign(const RouteMatch& match) const {
  if (!Header("x-kvgate-upstream").empty()) return true;
  if (match.route == Route::kConversations) return !context_.service.has_local();
  return protocol::form::RequestOf(match.argument).empty();
}

Task<Result<void>> Connection::ScanBody() {
  const std::string_view coding = Header("content-encoding");
  if (upstream::wire::IsIdentity(coding)) {
    std::function<void()> scan = [this] { scan_ = upstream::ScanBody(parser_->get().body()); };
    if (parser_->get().body().size() >= kLargeBodyBytes) {
      const Result<void> ran = co_await RunOn(context_.pools.request, std::move(scan));
      co_return ran;
    }
    scan();
    co_return Result<void>();
  }
  // With two headers the encodings' order matters, and not every recipient looks at both.
  if (parser_->get().count(beast::http::field::content_encoding) > 1) co_return Result<void>();
  Result<void> fits;
  std::function<void()> work = [this, coding, &fits] {
    const uint64_t encoded = lease_.bytes();
    fits = lease_.GrowTo(encoded + context_.options.body_bytes_max);
    if (!fits) return;
    decoded_ = upstream::DecodeBody(coding, parser_->get().body(), context_.options.body_bytes_max);
    lease_.ShrinkTo(encoded + (decoded_ ? decoded_->size() : 0));
    if (decoded_) scan_ = upstream::ScanBody(*decoded_);
  };
  const Result<void> ran = co_await RunOn(context_.pools.request, std::move(work));
  co_return ran ? fits : ran;
}

bool Connection::RunsLocally() const {
  if (targets_->upstreams->empty()) return true;
  if (!context_.service.has_local() || !Header("x-kvgate-upstream").empty()) return false;
  if (context_.service.ServesLocal(scan_.model)) return true;
  // A body that is encoded and unreadable is left to an upstream instead of the local model.
  if (!decoded_ && !upstream::wire::IsIdentity(Header("content-encoding"))) return false;
  return scan_.model.empty() ||
         !targets_->upstreams->Serves(
             {.dialect = kind_.dialect, .endpoint = kind_.endpoint, .model = scan_.model});
}

Task<bool> Connection::ServeGeneration(RouteMatch match) {
  const bool encoded = !upstream::wire::IsIdentity(Header("content-encoding"));
  known_.reset();
  Result<void> scanned;
  if (!targets_->upstreams->empty() || key_ != nullptr || encoded) scanned = co_await ScanBody();
  if (!scanned) {
    Response response = message::ErrorResponse(scanned.error());
    const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
    co_return again;
  }
  if (route::Route* const route = ModelRoute(match); route != nullptr) {
    const bool again = co_await ServeRouted(std::move(match), *route);
    co_return again;
  }
  if (!RunsLocally()) {
    const bool again = co_await ServeForward(std::move(match));
    co_return again;
  }
  const Result<void> admitted = Admit(scan_.model);
  if (!admitted) {
    Response response = message::ErrorResponse(admitted.error());
    const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
    co_return again;
  }
  if (encoded && !decoded_) {
    Response response = message::StatusResponse(
        415, fmt::format("The body cannot be read in its Content-Encoding '{}', or is larger than "
                         "{} bytes without it; gzip, zstd and br are understood.",
                         Header("content-encoding"), context_.options.body_bytes_max));
    const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
    co_return again;
  }
  if (decoded_) parser_->get().body() = std::move(*std::exchange(decoded_, std::nullopt));
  const std::optional<bool> again = co_await ServeCompletion(std::move(match), {});
  co_return again.value_or(false);
}

// Only Anthropic upstreams can count tokens.
bool Connection::EstimatesTokens(const Forwarding& job) const {
  return kind_.endpoint == upstream::wire::Endpoint::kCountTokens &&
         job.upstream->dialect() != upstream::wire::Dialect::kAnthropic;
}

Task<bool> Connection::ServeForward(RouteMatch match) {
  const std::optional<bool> again = co_await ForwardTo(std::move(match), {});
  co_return again.value_or(false);
}

Task<std::optional<bool>> Connection::ForwardTo(RouteMatch match, ForwardArgs args) {
  Forwarding job;
  job.args = args;
  job.route = match.name;
  job.fields = RequestFields();
  job.end.body_read = Clock::now() - received_at_;
  const bool is_unknown = match.route == Route::kForwarded;
  Result<void> admitted;
  if (is_unknown || match.route == Route::kEmbeddings || message::IsKept(match.route)) {
    admitted = co_await ScanBody();
  }
  job.model = match.route == Route::kModel ? match.argument : scan_.model;
  Result<upstream::Upstream*> chosen = args.upstream;
  if (args.upstream == nullptr && admitted) {
    chosen = targets_->upstreams->Choose({.dialect = kind_.dialect,
                                          .endpoint = kind_.endpoint,
                                          .name = Header("x-kvgate-upstream"),
                                          .model = job.model,
                                          .unknown_path = is_unknown});
    if (is_unknown && !(chosen && MaySendUnknown(**chosen))) {
      const std::string_view path = message::PathOf(ToView(parser_->get().target()));
      chosen = MakeError(ErrorCode::kNotFound, "http", fmt::format("There is no {} here.", path));
    }
    admitted = co_await CheckPrompt(job.model);
    if (admitted && Header("x-kvgate-private") == "1") {
      admitted =
          MakeError(ErrorCode::kPermissionDenied, "http",
                    "x-kvgate-private keeps a request on this machine, and this one would go "
                    "to an upstream; a [[route]] can send it to the local engine.");
    }
  }
  if (chosen && admitted) job.upstream = *chosen;
  if (!args.model.empty()) {
    std::function<void()> rename = [this, &job] { Rename(job); };
    co_await RunSized(parser_->get().body().size(), std::move(rename));
  }
  Begin(job);
  std::optional<bool> again;
  if (admitted && chosen) admitted = co_await Translate(job);
  if (admitted && chosen && EstimatesTokens(job)) {
    again = co_await SendEstimate(job);
    End(job);
    co_return again;
  }
  if (admitted && chosen) admitted = co_await PreparePrompt(job);
  if (!admitted || !chosen) {
    Error error = !admitted ? admitted.error() : chosen.error();
    job.end.outcome = ExchangeOutcome::kRefused;
    job.end.error = error.detail;
    Response response = message::ErrorResponse(error);
    job.end.status = response.status;
    again = co_await Send(std::move(response), job.route, true);
    End(job);
    co_return again;
  }
  job.exchange = std::make_unique<Exchange>(*job.upstream, executor());
  client_gone_ = false;
  exchange_ = job.exchange.get();
  ArmTick();
  again = co_await Forward(job);
  exchange_ = nullptr;
  // The next target needs the body again.
  if (!again && job.body) {
    std::function<void()> copy = [this, &job] { parser_->get().body() = *job.body; };
    co_await RunSized(job.body->size(), std::move(copy));
  }
  job.end.superseded = !again.has_value();
  End(job);
  co_return again;
}

// Puts the target's own name for the model into the body.
void Connection::Rename(Forwarding& job) {
  job.model = job.args.model;
  const std::string& body = decoded_ ? *decoded_ : parser_->get().body();
  if (scan_.model_end != 0) job.renamed = upstream::WithModel(body, scan_, job.model);
}

// Returns false while too many shared bytes are waiting: if the workers cannot keep up, the
// sender's own thread hashes, which delays only the sender.
bool Connection::SharesBody() const {
  return parser_->get().body().size() >= kHashedHereBytes &&
         context_.shared_body_bytes->load() < kSharedBytesMax;
}

// Shares a large body with the worker that hashes it; its memory returns to this thread's pool.
std::shared_ptr<const std::string> Connection::ShareBody() {
  auto* const body = new std::string(std::move(parser_->get().body()));
  *context_.shared_body_bytes += body->size();
  return {body, [bytes = context_.shared_body_bytes](std::string* done) {
            *bytes -= done->size();
            socket::ReturnBody(std::move(*done));
            delete done;
          }};
}

// Returns true if the next target is asked instead of passing this one's answer or failure on.
bool Connection::PassesOn(Forwarding& job, const Result<void>& started) const {
  if (!job.args.has_next || client_gone_ || cancelled_) return false;
  if (started && !route::IsFallbackStatus(job.exchange->status())) return false;
  job.end.error =
      started ? fmt::format("'{}' answered {}", job.upstream->name(), job.exchange->status())
              : started.error().detail;
  KVGATE_LOG(kWarning, "http", "request {}: {}; the next target is asked", request_id_,
             job.end.error);
  return true;
}

Task<std::optional<bool>> Connection::Forward(Forwarding& job) {
  const auto& message = parser_->get();
  const upstream::wire::HeaderFields fields =
      job.translation ? job.translation->FieldsOf(job.fields) : std::move(job.fields);
  if (job.account && SharesBody()) job.body = ShareBody();
  const std::string& received = job.body ? *job.body : message.body();
  const std::string& body = job.sent ? *job.sent : received;
  upstream::wire::HeaderFields added;
  if (job.translation) added = job.translation->added();
  for (const auto& [name, value] : job.prompt.headers) added.push_back({name, value});
  const std::string target = upstream::wire::UpstreamTarget(
      job.upstream->url().path, job.upstream->dialect(),
      job.translation ? job.translation->path() : ToView(message.target()));
  const bool lends_key = job.translation && job.upstream->api_key().empty();
  const std::string head = upstream::wire::RequestHead(
      {.method = ToView(message.method_string()),
       .target = target,
       .host = job.upstream->host(),
       .fields = fields,
       .body_bytes = body.size(),
       .added = added,
       .drop_encoding = job.is_renamed,
       .drop_accept_encoding = Explains() || job.translation,
       .api_key = lends_key ? job.translation->credential() : job.upstream->api_key(),
       .dialect = job.upstream->dialect(),
       .drop_credential = key_is_credential_});
  bool starts = true;
  bool hash_is_due = false;
  job.exchange->OnSent([this, &job, &received, &body, &starts, &hash_is_due] {
    if (!job.account) return;
    hash_is_due = starts && !job.body && received.size() >= kLargeBodyBytes;
    if (hash_is_due) return;
    if (job.body) {
      job.account->HashOnWorker(context_.pools.request, executor(), job.body,
                                job.sent ? job.sent : job.body);
    } else {
      job.account->observer().OnSent(received, body);
    }
  });
  const Result<void> started =
      co_await job.exchange->Start({.head = head, .body = body, .head_only = head_only_});
  starts = false;
  if (hash_is_due) {
    std::function<void()> hash = [&job, &received, &body] {
      job.account->observer().OnSent(received, body);
    };
    co_await RunSized(received.size(), std::move(hash));
  }
  if (PassesOn(job, started)) co_return std::nullopt;
  if (job.args.participant != nullptr) job.args.participant->Complete(Clock::now());
  if (!started) {
    Error error = started.error();
    const bool again = co_await SendFailure(job, std::move(error));
    co_return again;
  }
  // A body that has been sent need not be held during a long answer.
  if (!job.exchange->sending()) {
    job.body.reset();
    job.sent.reset();
    decoded_.reset();
    ReleaseBody();
  }
  if (job.translation) {
    const bool again = co_await PassTranslated(job);
    co_return again;
  }
  const bool again = co_await PassAnswer(job);
  co_return again;
}

// Examines how much of the prompt the upstream's cache can hold and prepares the body to be sent.
Task<Result<void>> Connection::PreparePrompt(Forwarding& job) {
  job.is_renamed = !job.renamed.empty();
  const bool encoded = !upstream::wire::IsIdentity(Header("content-encoding"));
  const upstream::wire::Endpoint endpoint =
      job.translation ? job.translation->sent_endpoint() : kind_.endpoint;
  const std::string_view body = !job.renamed.empty() ? std::string_view(job.renamed)
                                : decoded_           ? std::string_view(*decoded_)
                                                     : parser_->get().body();
  const std::string credential = SentCredential(job.upstream);
  const service::Prompts::Args args{.body = body,
                                    .encoded = encoded && job.renamed.empty(),
                                    .endpoint = endpoint,
                                    .tenant = Tenant(),
                                    .upstream = job.upstream->config(),
                                    .provider = job.upstream->provider(),
                                    .key = key_ == nullptr ? nullptr : &key_->config(),
                                    .fields = job.fields,
                                    .credential = credential};
  if (!service::HasAnswer(endpoint) || !scan_.readable || context_.options.prompts == nullptr) {
    if (!job.renamed.empty()) {
      job.sent = std::make_shared<const std::string>(std::move(job.renamed));
    }
    co_return scan_.readable ? Result<void>() : service::Prompts::CheckUnread(args);
  }
  Result<service::Prompts::Prompt> prompt = service::Prompts::Prompt();
  std::function<void()> work = [&] { prompt = context_.options.prompts->Prepare(args); };
  if (args.body.size() < kPreparedHereBytes) {
    work();
  } else {
    const Result<void> ran = co_await RunOn(context_.pools.request, std::move(work));
    if (!ran) co_return ran;
  }
  if (!prompt) co_return std::move(prompt).error();
  job.prompt = *std::move(prompt);
  if (job.prompt.body) {
    // If the body came in a content-encoding, the prepared body is its decoded form.
    job.is_renamed = job.is_renamed || encoded;
    job.sent = std::make_shared<const std::string>(std::move(*job.prompt.body));
  } else if (!job.renamed.empty()) {
    job.sent = std::make_shared<const std::string>(std::move(job.renamed));
  }
  if (job.sent) {
    const Result<void> fits = lease_.GrowTo(lease_.bytes() + job.sent->size());
    if (!fits) co_return fits;
  }
  if (job.account && job.prompt.preparation) {
    job.account->observer().OnPrepared(job.prompt.preparation);
  }
  co_return Result<void>();
}

void Connection::TakeAnswerFields(Forwarding& job) {
  job.answer_fields = job.exchange->fields();
  const upstream::SecretMask mask = job.Mask();
  for (upstream::wire::HeaderField& field : job.answer_fields) {
    if (mask.IsIn(field.value)) {
      field.value = job.masked_values.emplace_back(mask.Whole(field.value));
    }
  }
}

// Only failures are searched for the operator's key, because only they repeat the request; a
// successful answer is passed on unchanged.
std::optional<upstream::SecretMask> Connection::FailureMask(const Forwarding& job) const {
  const int status = job.exchange->status();
  upstream::SecretMask mask = job.Mask();
  if ((status >= 200 && status <= 299) || head_only_ || mask.is_empty()) return std::nullopt;
  return mask;
}

// An encoded failure can be searched only as a whole. It is passed on unchanged, or decoded if it
// contains the key.
Task<bool> Connection::PassEncodedFailure(Forwarding& job) {
  Exchange& exchange = *job.exchange;
  TellHead(job);
  std::string body = exchange.TakeReady();
  while (!exchange.finished() && body.size() <= kFailureBytesMax) {
    Result<std::string> next = co_await exchange.Read();
    if (!next) break;
    body += *next;
  }
  if (client_gone_) {
    job.end.outcome = ExchangeOutcome::kClientLeft;
    co_return false;
  }
  if (!exchange.finished()) {
    job.end.outcome = ExchangeOutcome::kUpstreamCut;
    job.end.error = fmt::format("The upstream's error {} was cut, or is larger than {} bytes.",
                                exchange.status(), kFailureBytesMax);
    Response response = message::StatusResponse(502, job.end.error);
    job.end.status = response.status;
    const bool again = co_await Send(std::move(response), job.route, true);
    co_return again;
  }
  if (job.account) job.account->observer().OnBody(body);
  const upstream::SecretMask mask = job.Mask();
  const std::string_view coding = upstream::wire::FindHeader(job.answer_fields, "content-encoding");
  const auto decoded = upstream::DecodeBody(coding, body, kFailureBytesMax);
  const bool shows_key = decoded && mask.IsIn(*decoded);
  if (shows_key) body = mask.Whole(*decoded);
  std::erase_if(job.answer_fields, [&](const upstream::wire::HeaderField& field) {
    return upstream::wire::SameName(field.name, "content-length") ||
           (shows_key && upstream::wire::SameName(field.name, "content-encoding"));
  });
  const std::string& length = job.masked_values.emplace_back(std::to_string(body.size()));
  job.answer_fields.push_back({.name = "content-length", .value = length});
  if (context_.draining.load()) keep_alive_ = false;
  std::string bytes = upstream::wire::ForwardedHead({.status = exchange.status(),
                                                     .reason = mask.Whole(exchange.reason()),
                                                     .fields = job.answer_fields,
                                                     .request_id = request_id_,
                                                     .keep_alive = keep_alive_,
                                                     .http_1_0 = http_1_0_});
  Count(job.route, exchange.status());
  job.end.first_body = Clock::now() - received_at_;
  job.end.body_bytes = body.size();
  bytes += body;
  const bool written = co_await Write(std::move(bytes));
  if (!written) job.end.outcome = ExchangeOutcome::kClientLeft;
  co_return written&& keep_alive_;
}

Task<bool> Connection::PassAnswer(Forwarding& job) {
  Exchange& exchange = *job.exchange;
  job.end.status = exchange.status();
  TakeAnswerFields(job);
  const upstream::wire::HeaderFields& fields = job.answer_fields;
  std::optional<upstream::SecretMask> mask = FailureMask(job);
  if (mask && !upstream::wire::IsIdentity(upstream::wire::FindHeader(fields, "content-encoding"))) {
    const bool again = co_await PassEncodedFailure(job);
    co_return again;
  }
  std::optional<protocol::form::AnswerExtension> extension = ExtensionOf(job);
  const bool sized = !exchange.length_unknown() && !extension;
  const bool chunked = !sized && !http_1_0_;
  if (context_.draining.load() || (!sized && http_1_0_)) keep_alive_ = false;
  TellHead(job);
  std::string before = upstream::wire::ForwardedHead({.status = exchange.status(),
                                                      .reason = job.Mask().Whole(exchange.reason()),
                                                      .fields = fields,
                                                      .request_id = request_id_,
                                                      .keep_alive = keep_alive_,
                                                      .http_1_0 = http_1_0_,
                                                      .chunked = chunked});
  BeginHead();
  Count(job.route, exchange.status());
  std::string piece = exchange.TakeReady();
  while (true) {
    const bool last = exchange.finished();
    if (mask) piece = mask->Feed(piece);
    if (mask && last) piece += mask->Finish();
    if (!piece.empty() && job.end.first_body.count() < 0) {
      job.end.first_body = Clock::now() - received_at_;
    }
    if (extension) {
      if (!piece.empty()) job.account->observer().OnBody(piece);
      piece = extension->Feed(piece);
      if (last) piece += extension->Finish("kvgate", ExplanationOf(job));
    }
    std::string after;
    if (chunked && !piece.empty()) {
      before += fmt::format("{:x}\r\n", piece.size());
      after = "\r\n";
    }
    if (chunked && last) after += kLastChunk;
    const bool written = co_await WritePiece(before, piece, after);
    if (!written) {
      job.end.outcome = ExchangeOutcome::kClientLeft;
      job.end.error = "The client left or stopped reading.";
      co_return false;
    }
    job.end.body_bytes += piece.size();
    if (job.account && !extension && !piece.empty()) job.account->observer().OnBody(piece);
    if (last) break;
    before.clear();
    Result<std::string> next = co_await exchange.Read();
    if (!next) {
      job.end.outcome = client_gone_ ? ExchangeOutcome::kClientLeft : ExchangeOutcome::kUpstreamCut;
      job.end.error = next.error().detail;
      if (extension && !client_gone_) {
        const std::string rest = extension->Finish("kvgate", "");
        const std::string size = fmt::format("{:x}\r\n", rest.size());
        if (!rest.empty()) co_await WritePiece(size, rest, "\r\n");
      }
      // If the body ends with the connection, only a reset shows the client that it was cut.
      if (http_1_0_) stream_.ResetAtEnd();
      co_return false;
    }
    piece = std::move(*next);
  }
  co_return keep_alive_;
}

// Notes a half-closed client before the head is sent: if that client has left, it will answer the
// head with a reset.
void Connection::BeginHead() {
  half_closed_at_head_ = PollPeer() == Peer::kHalfClosed;
  head_sent_ = true;
}

// For a caller that asked for an explanation, if the answer has a place for it.
std::optional<protocol::form::AnswerExtension> Connection::ExtensionOf(
    const Forwarding& job) const {
  const upstream::wire::HeaderFields& fields = job.answer_fields;
  const std::string_view type = upstream::wire::FindHeader(fields, "content-type");
  const bool events = type.starts_with("text/event-stream");
  if (!Explains() || !job.account || http_1_0_ || head_only_ || job.exchange->status() != 200 ||
      !upstream::wire::IsIdentity(upstream::wire::FindHeader(fields, "content-encoding")) ||
      (!events && !type.starts_with("application/json"))) {
    return std::nullopt;
  }
  return protocol::form::AnswerExtension(events);
}

std::string Connection::ExplanationOf(Forwarding& job) {
  TakeTimes(job);
  return job.account->observer().Explain(job.end);
}

Task<bool> Connection::WritePiece(std::string_view before, std::string_view piece,
                                  std::string_view after) {
  if (before.empty() && piece.empty() && after.empty()) co_return true;
  stream_.ExpireAfter(context_.options.write_timeout);
  const bool written = co_await upstream::wire::WriteAll(stream_, {before, piece, after});
  stream_.ExpireNever();
  co_return written;
}

// Answers the client when the upstream gave no answer.
Task<bool> Connection::SendFailure(Forwarding& job, Error error) {
  job.end.error = error.detail;
  if (client_gone_ || cancelled_) {
    if (client_gone_) context_.service.metrics().client_disconnects.Add();
    job.end.outcome = ExchangeOutcome::kClientLeft;
    job.end.status = client_gone_ ? 499 : 503;
    Count(job.route, job.end.status);
    co_return false;
  }
  KVGATE_LOG(kWarning, "http", "request {}: {}", request_id_, error.detail);
  Response response = message::StatusResponse(StatusOf(error), error.detail);
  if (response.status == 503) {
    const int pause = error.retry_after_seconds > 0 ? error.retry_after_seconds : 1;
    response.headers.emplace_back("retry-after", fmt::format("{}", pause));
  }
  job.end.outcome =
      job.exchange->num_attempts() == 0 ? ExchangeOutcome::kRefused : ExchangeOutcome::kFailed;
  job.end.status = response.status;
  const bool again = co_await Send(std::move(response), job.route, true);
  co_return again;
}

std::string Connection::SentCredential(const upstream::Upstream* upstream) const {
  if (upstream != nullptr && !upstream->api_key().empty()) return upstream->api_key();
  return std::string(ProviderCredential());
}

void Connection::Begin(Forwarding& job) {
  if (context_.options.exchange_log == nullptr) return;
  const auto& message = parser_->get();
  const auto since_head =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(Clock::now() - received_at_);
  auto observer = context_.options.exchange_log->Begin(
      {.request_id = request_id_,
       .received_at = std::chrono::system_clock::now() - since_head,
       .upstream = job.upstream == nullptr ? "" : std::string_view(job.upstream->name()),
       .provider = job.upstream == nullptr ? "" : std::string_view(job.upstream->provider()),
       .dialect = kind_.dialect,
       .endpoint = kind_.endpoint,
       .method = ToView(message.method_string()),
       .path = message::PathOf(ToView(message.target())),
       .model = job.model,
       .tenant = Tenant(),
       .key = key_ == nullptr ? "" : std::string_view(key_->name()),
       .body = message.body(),
       .content_encoding = Header("content-encoding"),
       .stream = scan_.stream,
       .fields = &job.fields,
       .is_subscription = service::IsSubscription(SentCredential(job.upstream), job.fields)});
  job.account = std::make_shared<ExchangeAccount>(
      std::move(observer),
      std::shared_ptr<access::GatewayKeys::Key>(targets_, key_));  // keeps the key alive
}

void Connection::TakeTimes(Forwarding& job) const {
  if (job.exchange) {
    const Exchange::Times& times = job.exchange->times();
    const auto since = [this](const std::optional<Clock::time_point>& time) {
      return time ? *time - received_at_ : std::chrono::nanoseconds(-1);
    };
    job.end.num_attempts = job.exchange->num_attempts();
    job.end.connected = since(times.connected);
    job.end.sent = since(times.sent);
    job.end.first_byte = since(times.first_byte);
  }
  job.end.ended = Clock::now() - received_at_;
}

void Connection::End(Forwarding& job) {
  if (!job.account) return;
  TakeTimes(job);
  job.account->End(job.end);
}

upstream::wire::HeaderFields Connection::RequestFields() const {
  upstream::wire::HeaderFields fields;
  fields.reserve(32);
  for (const auto& field : parser_->get()) {
    fields.push_back({.name = ToView(field.name_string()), .value = ToView(field.value())});
  }
  return fields;
}

// One timer serves all requests that this connection forwards: arming it for each request would
// cost more than a tick that finds no work.
void Connection::ArmTick() {
  if (std::exchange(tick_armed_, true)) return;
  tick_.expires_after(context_.options.poll_interval);
  tick_.async_wait([self = shared_from_this()](const beast::error_code& code) {
    self->tick_armed_ = false;
    if (!code && self->exchange_ != nullptr) self->OnTick();
  });
}

void Connection::OnTick() {
  exchange_->Tick(Clock::now());
  const Peer peer = PollPeer();
  bool gone = peer == Peer::kGone;
  if (peer == Peer::kHalfClosed && !probed_ && head_sent_) {
    // A client that had left before the head answers it with a reset; a client that waits for the
    // answers to further requests has not left.
    gone = !half_closed_at_head_ && !HasUnread();
  } else if (peer == Peer::kHalfClosed && !probed_) {
    probed_ = true;
    // No byte of the answer has been written yet, so these few bytes fit and mix with no others.
    gone = http_1_0_ || !stream_.SendNow(message::kContinue, shared_from_this());
  }
  if (gone) {
    client_gone_ = true;
    exchange_->Abort();
  } else {
    ArmTick();
  }
}

}  // namespace kvgate::http
