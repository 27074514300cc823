#include "gateway/http/translated_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "gateway/http/connection.h"
#include "gateway/http/forwarding.h"
#include "gateway/ledger/prices.h"
#include "gateway/protocol/messages.h"
#include "gateway/translate/error_translator.h"

namespace kvgate::http {

using message::Response;
using socket::Task;
using upstream::wire::FindHeader;

namespace {

using upstream::wire::Endpoint;
using upstream::wire::HeaderFields;
using ReplyEnd = translate::ReplyTranslator::End;
using Clock = std::chrono::steady_clock;

constexpr size_t kErrorBytesMax = size_t{1} << 20;
// A larger body is translated on a worker: translating takes about a millisecond for 300 KB.
constexpr size_t kTranslatedHereBytes = 256 * 1024;

translate::TargetTraits TraitsOf(const upstream::Upstream& upstream, std::string_view model) {
  const ledger::PriceRow* row = ledger::Prices::Builtin().Find(upstream.provider(), model);
  const bool openai = upstream.provider() == "openai";
  return {.breakpoints = openai && row != nullptr && row->rules.breakpoints_max > 0,
          .ttl = upstream.config().cache_ttl,
          .reasoning_content = !openai,
          .plain_names = !openai};
}

// True for headers that concern only one dialect's provider or are set anew for the upstream.
bool IsDialects(std::string_view name) {
  static constexpr std::string_view kNames[] = {"authorization", "x-api-key",  "content-type",
                                                "accept",        "session_id", "x-app"};
  static constexpr std::string_view kPrefixes[] = {"anthropic-", "openai-", "x-stainless-",
                                                   "chatgpt-"};
  const auto begins = [&](std::string_view prefix) {
    return upstream::wire::SameName(name.substr(0, prefix.size()), prefix);
  };
  return std::any_of(
             std::begin(kNames), std::end(kNames),
             [&](std::string_view known) { return upstream::wire::SameName(name, known); }) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes), begins);
}

}  // namespace

protocol::form::Dialect DialectOf(Endpoint endpoint) {
  if (endpoint == Endpoint::kMessages) return protocol::form::Dialect::kMessages;
  return endpoint == Endpoint::kResponses ? protocol::form::Dialect::kResponses
                                          : protocol::form::Dialect::kChatCompletions;
}

Translation::Translation(const Args& args)
    : from_(DialectOf(args.endpoint)),
      sent_endpoint_(*upstream::TranslatedEndpoint(args.endpoint, args.upstream)),
      model_(args.model),
      credential_(args.credential) {}

Result<std::unique_ptr<Translation>> Translation::Make(const Args& args) {
  std::unique_ptr<Translation> made(new Translation(args));
  KVGATE_TRY(made->request_,
             translate::TranslateRequest({.from = made->from_,
                                          .to = DialectOf(made->sent_endpoint_),
                                          .body = args.body,
                                          .target = TraitsOf(args.upstream, args.model),
                                          .output = args.output}));
  return made;
}

HeaderFields Translation::FieldsOf(const HeaderFields& fields) const {
  HeaderFields kept;
  for (const upstream::wire::HeaderField& field : fields) {
    if (!IsDialects(field.name)) kept.push_back(field);
  }
  return kept;
}

HeaderFields Translation::added() const {
  HeaderFields added = {{.name = "content-type", .value = "application/json"}};
  if (sent_endpoint_ == Endpoint::kMessages) {
    added.push_back({.name = "anthropic-version", .value = "2023-06-01"});
  }
  return added;
}

void Translation::BeginReply(const HeaderFields& fields, const std::string& request_id) {
  const std::string_view type = FindHeader(fields, "content-type");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  decoder_ = upstream::wire::ContentDecoder::For(FindHeader(fields, "content-encoding"));
  reply_ = translate::ReplyTranslator::Make(
      {.from = DialectOf(sent_endpoint_),
       .events = type.starts_with("text/event-stream"),
       .reply = {.dialect = from_,
                 .request_id = request_id,
                 .created_unix = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                 .model = model_,
                 .stream = request_.stream,
                 .include_usage = request_.include_usage,
                 .response = request_.shape},
       .tools = request_.tools});
}

void Translation::Feed(std::string_view bytes, std::string& out) {
  if (decoder_ == nullptr) {
    reply_->Feed(bytes, out);
    return;
  }
  decoder_->Feed(bytes, *this);
  reply_->Feed(decoded_, out);
  decoded_.clear();
}

ReplyEnd Translation::Finish(std::string& out) { return reply_->Finish(out); }

Response Translation::RefusalOf(int status, const HeaderFields& fields, std::string_view body,
                                std::string_view request_id) const {
  std::string text(body);
  const std::string_view coding = FindHeader(fields, "content-encoding");
  if (!upstream::wire::IsIdentity(coding)) {
    text = upstream::DecodeBody(coding, body, kErrorBytesMax).value_or("");
  }
  translate::UpstreamError error = translate::ReadErrorBody(status, text);
  // A status that is neither success nor error means nothing to a client of another dialect.
  if (status < 400) error.status = 502;
  translate::TranslatedError told = translate::TranslateError(error, from_, request_id);
  Response response{.status = told.status, .body = std::move(told.body)};
  for (const std::string_view name : {"retry-after", "retry-after-ms", "x-should-retry"}) {
    const std::string_view value = FindHeader(fields, name);
    if (!value.empty()) response.headers.emplace_back(name, value);
  }
  return response;
}

// --- in forwarding ------------------------------------------------------------------------------

Task<Result<void>> Connection::Translate(Forwarding& job) {
  if (!upstream::TranslatedEndpoint(kind_.endpoint, *job.upstream)) co_return Result<void>();
  const bool encoded = !upstream::wire::IsIdentity(Header("content-encoding"));
  if (encoded && !decoded_) {
    co_return MakeError(ErrorCode::kUnsupported, "translate",
                        "The body cannot be read in its Content-Encoding, and the model's upstream "
                        "speaks another dialect.");
  }
  const std::string_view body = !job.renamed.empty() ? std::string_view(job.renamed)
                                : decoded_           ? std::string_view(*decoded_)
                                                     : parser_->get().body();
  Result<std::unique_ptr<Translation>> made =
      MakeError(ErrorCode::kInternal, "translate", "translating failed");
  std::function<void()> work = [&] {
    made = Translation::Make({.endpoint = kind_.endpoint,
                              .upstream = *job.upstream,
                              .model = job.model,
                              .body = body,
                              .credential = ProviderCredential(),
                              .output = service::OutputLimitOf(
                                  key_ == nullptr ? nullptr : &key_->config(), job.fields)});
  };
  if (body.size() < kTranslatedHereBytes) {
    work();
  } else {
    const Result<void> ran = co_await RunOn(context_.pools.request, std::move(work));
    if (!ran) made = ran.error();
  }
  if (!made) co_return std::move(made).error();
  job.translation = std::move(*made);
  job.renamed = job.translation->TakeBody();
  SayLeftOut(job);
  if (job.account) {
    job.account->observer().OnTranslated(job.translation->sent_endpoint(),
                                         job.translation->left_out());
  }
  co_return Result<void>();
}

// The left-out parts are named in each answer's head, but logged only once a conversation.
void Connection::SayLeftOut(const Forwarding& job) {
  const std::vector<std::string>& left_out = job.translation->left_out();
  left_out_ = fmt::format("{}", fmt::join(left_out, ", "));
  for (const std::string& what : left_out) {
    if (!context_.service.IsFirstNotice(Tenant(), job.translation->opening(), what)) continue;
    KVGATE_LOG(kWarning, "http",
               "request {}: the dialect of '{}' has no '{}': requests of this conversation go "
               "without it",
               request_id_, job.upstream->name(), what);
  }
}

// Answers with an estimated token count, for upstreams that cannot count tokens.
Task<bool> Connection::SendEstimate(Forwarding& job) {
  const std::string& body = decoded_ ? *decoded_ : parser_->get().body();
  Result<int64_t> tokens = MakeError(ErrorCode::kInternal, "translate", "counting failed");
  std::function<void()> work = [&] { tokens = translate::EstimateTokens(body); };
  const Result<void> ran = co_await RunOn(context_.pools.request, std::move(work));
  if (!ran) tokens = ran.error();
  Response response = tokens ? Response{.body = protocol::EncodeTokenCount(*tokens)}
                             : message::ErrorResponse(tokens.error());
  job.end.outcome = upstream::ExchangeOutcome::kRefused;
  job.end.error = "The upstream does not count tokens; the answer is an estimate.";
  job.end.status = response.status;
  const bool again = co_await Send(std::move(response), job.route, true);
  co_return again;
}

void Connection::TellHead(Forwarding& job) {
  if (!job.account) return;
  const HeaderFields& fields = job.answer_fields;
  const std::string_view own = FindHeader(fields, "x-request-id");
  job.account->observer().OnHead(
      {.status = job.exchange->status(),
       .content_type = FindHeader(fields, "content-type"),
       .content_encoding = FindHeader(fields, "content-encoding"),
       .upstream_request_id = own.empty() ? FindHeader(fields, "request-id") : own});
}

Task<bool> Connection::PassTranslated(Forwarding& job) {
  upstream::Exchange& exchange = *job.exchange;
  Translation& translation = *job.translation;
  job.end.status = exchange.status();
  TakeAnswerFields(job);
  TellHead(job);
  if (exchange.status() < 200 || exchange.status() > 299) {
    const bool again = co_await PassRefusal(job);
    co_return again;
  }
  translation.BeginReply(job.answer_fields, request_id_);
  const bool stream = translation.stream();
  if (stream && http_1_0_) keep_alive_ = false;
  std::optional<protocol::form::AnswerExtension> extension;
  if (Explains() && job.account) extension.emplace(stream);
  std::string out;
  std::string piece = exchange.TakeReady();
  while (true) {
    if (job.account && !piece.empty()) job.account->observer().OnBody(piece);
    translation.Feed(piece, out);
    if (exchange.finished()) break;
    if (stream && !out.empty()) {
      std::string events = std::exchange(out, {});
      if (extension) events = extension->Feed(events);
      const bool written = events.empty() || co_await WriteEvents(job, std::move(events), false);
      if (!written) co_return false;
    }
    Result<std::string> next = co_await exchange.Read();
    if (!next) {
      if (extension) out = extension->Feed(out) + extension->Finish("kvgate", "");
      const bool again = co_await EndCut(job, std::move(out), next.error().detail);
      co_return again;
    }
    piece = std::move(*next);
  }
  const ReplyEnd end = translation.Finish(out);
  if (extension) {
    const bool whole = end != ReplyEnd::kCut && end != ReplyEnd::kFailed;
    out = extension->Feed(out);
    out += extension->Finish("kvgate", whole ? ExplanationOf(job) : "");
  }
  if (end == ReplyEnd::kCut || (end == ReplyEnd::kFailed && !stream)) {
    const bool again = co_await EndCut(job, std::move(out), translation.error().detail);
    co_return again;
  }
  if (stream) {
    const bool written = co_await WriteEvents(job, std::move(out), true);
    co_return written&& keep_alive_;
  }
  job.end.first_body = Clock::now() - received_at_;
  job.end.body_bytes = out.size();
  Response response{.body = std::move(out)};
  const bool again = co_await Send(std::move(response), job.route, true);
  co_return again;
}

// The head goes out with the first events.
Task<bool> Connection::WriteEvents(Forwarding& job, std::string events, bool last) {
  std::string bytes = Frame(events);
  if (!head_sent_) {
    if (context_.draining.load()) keep_alive_ = false;
    BeginHead();
    Count(job.route, 200);
    bytes.insert(0, message::StreamHead(Head(true)));
    job.end.first_body = Clock::now() - received_at_;
  }
  if (last && !http_1_0_) bytes += "0\r\n\r\n";
  job.end.body_bytes += events.size();
  const bool written = co_await Write(std::move(bytes));
  if (!written) {
    job.end.outcome = upstream::ExchangeOutcome::kClientLeft;
    job.end.error = "The client left or stopped reading.";
  }
  co_return written;
}

// Ends an answer that the upstream cut off; if nothing has been sent yet the client gets an error
// instead.
Task<bool> Connection::EndCut(Forwarding& job, std::string out, std::string why) {
  job.end.outcome = client_gone_ ? upstream::ExchangeOutcome::kClientLeft
                                 : upstream::ExchangeOutcome::kUpstreamCut;
  if (!client_gone_ && job.translation->stream() && !out.empty()) {
    co_await WriteEvents(job, std::move(out), false);
  }
  job.end.error = std::move(why);
  if (client_gone_ || head_sent_) {
    if (http_1_0_) stream_.ResetAtEnd();
    co_return false;
  }
  Response response = message::StatusResponse(502, job.end.error);
  job.end.status = response.status;
  const bool again = co_await Send(std::move(response), job.route, true);
  co_return again;
}

Task<bool> Connection::PassRefusal(Forwarding& job) {
  upstream::Exchange& exchange = *job.exchange;
  std::string body = exchange.TakeReady();
  while (!exchange.finished() && body.size() < kErrorBytesMax) {
    Result<std::string> next = co_await exchange.Read();
    if (!next) break;
    body += *next;
  }
  if (client_gone_) {
    job.end.outcome = upstream::ExchangeOutcome::kClientLeft;
    co_return false;
  }
  if (job.account) job.account->observer().OnBody(body);
  Response response =
      job.translation->RefusalOf(exchange.status(), job.answer_fields, body, request_id_);
  const upstream::SecretMask mask = job.Mask();
  response.body = mask.Whole(response.body);
  response.error_message = mask.Whole(response.error_message);
  job.end.status = response.status;
  job.end.body_bytes = response.body.size();
  const bool again = co_await Send(std::move(response), job.route, true);
  co_return again;
}

}  // namespace kvgate::http
