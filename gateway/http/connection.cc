#include "gateway/http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/http/read.hpp>
#include <cctype>
#include <limits>
#include <utility>

#include "base/log.h"
#include "gateway/http/message/message_rules.h"
#include "gateway/ledger/request_record.h"

namespace kvgate::http {

using message::ToView;
using proxy::handler::BodyRule;
using proxy::handler::FindRoute;
using proxy::request::ErrorResponse;
using proxy::request::PathOf;
using proxy::request::Response;
using proxy::request::StatusResponse;
using socket::kAwait;
using socket::Task;

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using Clock = std::chrono::steady_clock;

// At most this much is read from a caller that is refused or asks for an unknown path, since it may
// send anything. A client that checks for an early answer now and then sends no more than this.
constexpr size_t kDrainedRefusalBytes = size_t{4} << 20;
// A client that sends one body slightly over the limit gets its answer even if it reads only at the
// end.
constexpr size_t kDrainedBeyondBytes = size_t{1} << 20;
constexpr size_t kDrainedBytesMin = size_t{16} << 20;

// Time for TLS's last bytes to a client that does not read.
constexpr std::chrono::seconds kFarewellTimeout{1};

BodyRule BodyRuleOf(const proxy::handler::RouteResult& found) {
  return found.match ? found.match->body : BodyRule::kJson;
}

uint64_t BodyLimit(const ConnectionContext& context, const proxy::handler::RouteResult& found) {
  return BodyRuleOf(found) == BodyRule::kPieces ? context.options.import_bytes_max
                                                : context.body_bytes_max();
}

bool IsLoopback(const asio::ip::tcp::socket& socket) {
  beast::error_code code;
  const asio::ip::address peer = socket.remote_endpoint(code).address();
  if (code) return false;
  const bool is_mapped = peer.is_v6() && peer.to_v6().is_v4_mapped();
  return is_mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, peer.to_v6()).is_loopback()
                   : peer.is_loopback();
}

bool IsClosed(const beast::error_code& code) {
  return code == bhttp::error::end_of_stream || code == bhttp::error::partial_message ||
         code == beast::error::timeout || code.category() == asio::error::get_system_category() ||
         code.category() == asio::error::get_misc_category() ||
         // TLS is broken or was cut, so no answer would get through.
         code.category() == asio::error::get_ssl_category() ||
         code.category() == asio::ssl::error::get_stream_category();
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, ConnectionContext& context, bool over_limit)
    : context_(context),
      tls_(context.tls.Get()),
      targets_(context.environment.targets.Get()),
      is_loopback_(IsLoopback(socket)),
      stream_(std::move(socket)),
      // The whole head must fit into the buffer; a body leaves it piece by piece.
      buffer_(2 * context.options.header_bytes_max + 64 * 1024),
      body_(stream_, buffer_, context.options),
      sink_({.stream = stream_,
             .buffer = buffer_,
             .body = body_,
             .options = context.options,
             .closes_connections = context.closes_connections,
             .is_tls = tls_ != nullptr}),
      over_limit_(over_limit) {}

void Connection::Drain() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (self->idle_) self->stream_.Cancel();
  });
}

void Connection::EndAnswer() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] { self->sink_.EndAnswer(); });
}

void Connection::Cancel() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->stream_.Close();
    self->sink_.Cancel();
  });
}

Task<void> Connection::Run() {
  beast::error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  sink_.SetOwner(weak_from_this());
  bool open = true;
  if (tls_) {
    open = co_await BeginTls();
  }
  if (open && over_limit_) {
    open = co_await RefuseOverLimit();
  }
  while (open && !sink_.is_cancelled()) {
    open = co_await WaitForRequest();
    if (!open) break;
    open = co_await ServeOne();
    // A connection that waits for its next request must hold no memory of the last one.
    request_.reset();
  }
  sink_.Stop();
  if (tls_ && !sink_.is_cancelled()) {
    stream_.ExpireAfter(kFarewellTimeout);
    co_await stream_.EndSending();
  }
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.Close();
}

Task<bool> Connection::BeginTls() {
  if (context_.draining.load()) co_return false;
  idle_ = true;  // a drain need not wait for the handshake
  stream_.ExpireAfter(context_.options.header_timeout);
  auto [code, size] = co_await stream_.async_read_some(buffer_.prepare(4096), kAwait);
  if (code) co_return false;
  buffer_.commit(size);
  const unsigned char first = *static_cast<const unsigned char*>(buffer_.data().data());
  if (std::isupper(first) != 0) {  // a method's letter; a handshake begins with 0x16
    idle_ = false;
    co_await RefusePlain();
    co_return false;
  }
  const beast::error_code failed = co_await stream_.Handshake(*tls_, buffer_.data());
  idle_ = false;
  buffer_.clear();
  if (failed) {
    context_.environment.service.metrics().tls_handshake_failures.Add();
    KVGATE_LOG(kDebug, "http", "a TLS handshake failed: {}", failed.message());
  }
  co_return !failed;
}

Task<void> Connection::RefusePlain() {
  request_id_ = ledger::MakeRequestId();
  Response refusal{.status = 400,
                   .content_type = "text/plain; charset=utf-8",
                   .body = "This port speaks HTTPS, and the request came as plain HTTP.\n"};
  co_await RefuseAndClose(std::move(refusal), "plain_http");
}

Task<bool> Connection::WaitForRequest() {
  if (buffer_.size() > 0) co_return true;
  if (context_.draining.load()) co_return false;
  idle_ = true;
  stream_.ExpireAfter(context_.options.idle_timeout);
  auto [code, size] = co_await stream_.async_read_some(buffer_.prepare(4096), kAwait);
  idle_ = false;
  if (code) co_return false;
  buffer_.commit(size);
  co_return true;
}

void Connection::BeginRequest() {
  request_id_ = ledger::MakeRequestId();
  request_.reset();
  parser_.emplace();
  sink_.BeginRequest({});
  const size_t header_max = context_.options.header_bytes_max;
  parser_->header_limit(
      static_cast<uint32_t>(std::min<size_t>(header_max, std::numeric_limits<uint32_t>::max())));
  // The route, and with it the exact limit, is known only when the head has been read.
  parser_->body_limit(
      std::max<uint64_t>(context_.body_bytes_max(), context_.options.import_bytes_max));
}

Task<beast::error_code> Connection::ReadHead() {
  stream_.ExpireAfter(context_.options.header_timeout);
  // The first bytes usually hold the whole head, so there is nothing to wait for.
  beast::error_code code;
  size_t size = parser_->put(buffer_.data(), code);
  buffer_.consume(size);
  if (code == bhttp::error::need_more) {
    auto [rest_code, rest] = co_await bhttp::async_read_header(stream_, buffer_, *parser_, kAwait);
    code = rest_code;
    size += rest;
  }
  // The parser applies its limit only to bytes that it has not taken, which may be half of the
  // head.
  if (!code && size > context_.options.header_bytes_max) code = bhttp::error::header_limit;
  co_return code;
}

void Connection::TakeHead() {
  received_at_ = Clock::now();
  if (const uint64_t generation = context_.environment.targets.generation();
      generation != targets_generation_) {
    targets_ = context_.environment.targets.Get();
    targets_generation_ = generation;
  }
  auto& head = parser_->get();
  std::string target = proxy::handler::CanonicalTarget(ToView(head.target()));
  if (target != ToView(head.target())) head.target(target);
}

proxy::request::RequestHead Connection::HeadOfRequest() {
  const auto& message = parser_->get();
  proxy::request::RequestHead head{.request_id = request_id_,
                                   .method = ToView(message.method_string()),
                                   .target = ToView(message.target()),
                                   .fields = {},
                                   .is_head = message.method() == bhttp::verb::head,
                                   .is_loopback = is_loopback_,
                                   .is_framed = message.version() >= 11,
                                   .received_at = received_at_};
  head.fields.reserve(32);
  for (const auto& field : message) {
    head.fields.push_back({.name = ToView(field.name_string()), .value = ToView(field.value())});
  }
  return head;
}

std::optional<Response> Connection::CheckHead(const RouteResult& found) {
  const auto& message = parser_->get();
  const BodyRule rule = BodyRuleOf(found);
  return context_.guard.Check({.method = ToView(message.method_string()),
                               .host = request_->Header("host"),
                               .origin = request_->Header("origin"),
                               .content_type = rule == BodyRule::kNone
                                                   ? "application/json"
                                                   : request_->Header("content-type"),
                               .http_1_0 = message.version() < 11,
                               .takes_bytes = rule == BodyRule::kPieces});
}

Task<bool> Connection::ServeOne() {
  BeginRequest();
  const beast::error_code code = co_await ReadHead();
  if (code) {
    const bool again = co_await AnswerReadError(code, context_.body_bytes_max());
    co_return again;
  }
  const auto& message = parser_->get();
  body_.BeginRequest(*parser_);
  std::optional<Response> refusal = message::CheckMessage(message);
  if (refusal) {
    co_await RefuseAndClose(std::move(*refusal), "unreadable");
    co_return false;
  }
  TakeHead();
  RouteResult found = FindRoute(ToView(message.method_string()), ToView(message.target()));
  const uint64_t body_limit = BodyLimit(context_, found);
  parser_->body_limit(body_limit);
  sink_.BeginRequest({.keep_alive = message.keep_alive() && !context_.closes_connections.load(),
                      .http_1_0 = message.version() < 11,
                      .is_head = message.method() == bhttp::verb::head});
  request_.emplace(context_.environment, sink_, HeadOfRequest(), targets_);
  request_->body().source() = &body_;
  if (parser_->content_length().value_or(0) > body_limit) {
    const bool again = co_await AnswerReadError(bhttp::error::body_limit, body_limit);
    co_return again;
  }
  refusal = CheckHead(found);
  if (refusal) {
    const bool again = co_await Refuse(std::move(*refusal), "refused");
    co_return again;
  }
  proxy::handler::Entry entry = proxy::handler::Enter(*request_, std::move(found));
  refusal = entry.is_let_in ? message::CheckUpgrade(message) : std::nullopt;
  if (refusal) {
    const bool again = co_await Refuse(std::move(*refusal), "refused");
    co_return again;
  }
  if (!entry.match) {
    const bool again = co_await Refuse(std::move(entry.refusal), entry.refused_as());
    co_return again;
  }
  const bool again = co_await Answer(std::move(*entry.match));
  co_return again;
}

Task<bool> Connection::Answer(proxy::handler::RouteMatch match) {
  request_->place() = std::move(match.place);
  if (!request_->Header("expect").empty() && request_->head().is_framed && !parser_->is_done()) {
    const bool written = co_await sink_.WriteRaw(message::kContinue);
    if (!written) co_return false;
  }
  if (match.body != BodyRule::kPieces) {
    const bool is_read = co_await ReadBody();
    if (!is_read) co_return false;
  }
  co_await match.handler->Serve(*request_);
  if (sink_.is_answered() && !body_.is_complete()) co_await Linger(LingerBytes());
  co_return sink_.is_answered() && sink_.keep_alive() && body_.is_complete();
}

Task<bool> Connection::ReadBody() {
  const uint64_t body_limit = context_.body_bytes_max();
  BodyReader::Outcome outcome =
      co_await body_.ReadWhole(request_->body().bytes(), request_->body().lease());
  if (outcome.no_room) {
    Response refusal = ErrorResponse(*outcome.no_room);
    co_await RefuseAndClose(std::move(refusal), "body_refused");
  } else if (outcome.unreadable) {
    co_await AnswerReadError(outcome.unreadable, body_limit);
  }
  co_return outcome.is_complete();
}

Task<bool> Connection::AnswerReadError(beast::error_code code, uint64_t body_limit) {
  if (IsClosed(code)) co_return false;
  Response response;
  if (code == bhttp::error::body_limit) {
    response = ErrorResponse(MakeError(
        ErrorCode::kTooLarge, "http",
        fmt::format("The request body is larger than the limit of {} bytes.", body_limit)));
  } else if (code == bhttp::error::header_limit || code == bhttp::error::buffer_overflow) {
    response = StatusResponse(431, fmt::format("The request's head is larger than {} bytes.",
                                               context_.options.header_bytes_max));
  } else {
    response = StatusResponse(
        400, fmt::format("This is not a readable HTTP request: {}.", code.message()));
  }
  co_await RefuseAndClose(std::move(response), "unreadable");
  co_return false;
}

Task<bool> Connection::Refuse(Response refusal, std::string_view route) {
  if (IsSkipped(*parser_)) {
    const bool is_read = co_await ReadBody();
    if (!is_read) co_return false;
    const bool sent = co_await Send(std::move(refusal), route);
    co_return sent&& sink_.keep_alive();
  }
  sink_.CloseAfter();
  co_await Send(std::move(refusal), route);
  co_await Linger(kDrainedRefusalBytes);
  co_return false;
}

Task<void> Connection::RefuseAndClose(Response refusal, std::string_view route) {
  sink_.CloseAfter();
  co_await Send(std::move(refusal), route);
  co_await Linger(LingerBytes());
}

Task<bool> Connection::RefuseOverLimit() {
  request_id_ = ledger::MakeRequestId();
  Response refusal = ErrorResponse(MakeError(
      ErrorCode::kOverloaded, "http",
      fmt::format("All {} connections are in use; try again.", context_.options.connections_max)));
  co_await RefuseAndClose(std::move(refusal), "over_limit");
  co_return false;
}

Task<bool> Connection::Send(Response response, std::string_view route) {
  const fmt::format_int status(response.status);
  context_.environment.service.metrics()
      .requests.With({route, {status.data(), status.size()}})
      .Add();
  KVGATE_LOG(kDebug, "http", "request {}: {} {}", request_id_, route, response.status);
  proxy::request::LogRefusal(request_id_, route, "", response);
  std::string_view id_name;
  if (parser_) {
    const auto& message = parser_->get();
    const std::string_view target = ToView(message.target());
    const bool has_version = !message["anthropic-version"].empty();
    const dialect::form::Api api = upstream::KindOf(PathOf(target), has_version).dialect;
    const bool anthropic = api == dialect::form::Api::kAnthropic;
    if (proxy::handler::IsProvidersPath(target))
      id_name = anthropic ? "request-id" : "x-request-id";
    ToErrorOf(api, request_id_, response);
  }
  const bool written = co_await sink_.Send(std::move(response),
                                           {.request_id = request_id_, .dialect_id_name = id_name});
  co_return written;
}

size_t Connection::LingerBytes() const {
  return std::max(context_.body_bytes_max() + kDrainedBeyondBytes, kDrainedBytesMin);
}

Task<void> Connection::Linger(size_t bytes_max) {
  const Clock::time_point deadline = Clock::now() + context_.options.linger_timeout;
  stream_.ExpireAt(deadline);
  co_await stream_.EndSending();
  buffer_.clear();
  size_t total = 0;
  while (total < bytes_max && !sink_.is_cancelled()) {
    stream_.ExpireAt(deadline);
    auto [code, size] =
        co_await stream_.lower().async_read_some(buffer_.prepare(64 * 1024), kAwait);
    if (code) co_return;
    total += size;
  }
  while (!sink_.is_cancelled() && Clock::now() < deadline &&
         sink_.PollPeer() == ClientSink::Peer::kThere) {
    co_await sink_.signal().SleepUntil(Clock::now() + context_.options.poll_interval);
  }
}

}  // namespace kvgate::http
