#include "gateway/http/connection.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/http/read.hpp>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/log.h"
#include "gateway/http/message/message_rules.h"
#include "gateway/http/socket/body_pool.h"
#include "gateway/protocol/form/errors.h"

namespace kvgate::http {

using message::ErrorResponse;
using message::IsOpenAiPath;
using message::PathOf;
using message::Response;
using message::Route;
using message::RouteResult;
using message::ToView;
using socket::kAwait;
using socket::Task;

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using Clock = std::chrono::steady_clock;

// A refused body of at most this size is read to its end, so that the connection can be kept.
constexpr uint64_t kDrainedBodyBytes = 64 * 1024;

// At most this much is read from a caller that is refused or asks for an unknown path, since it may
// send anything. A client that checks for an early answer now and then sends no more than this.
constexpr size_t kDrainedRefusalBytes = size_t{4} << 20;
// A client that sends one body slightly over the limit gets its answer even if it reads only at the
// end.
constexpr size_t kDrainedBeyondBytes = size_t{1} << 20;
constexpr size_t kDrainedBytesMin = size_t{16} << 20;

// However short a body is, it may take this many times body_timeout.
constexpr int kSlowBodyTimeouts = 10;

// A body up to this size gets its memory at once. A larger one gets it when this much has arrived,
// so that an announced length alone takes no memory and the bytes are moved only once.
constexpr size_t kBodyReservedBytes = size_t{4} << 20;
constexpr size_t kBodyPieceBytes = 256 * 1024;

// Time for TLS's last bytes to a client that does not read.
constexpr std::chrono::seconds kFarewellTimeout{1};

bool TakesBytes(const RouteResult& found) {
  return found.match && found.match->route == Route::kPrefixesImport;
}

// Clients send a cancel request without a body, and so without a Content-Type.
bool HasNoBody(const RouteResult& found) {
  return found.match && found.match->route == Route::kResponseCancel;
}

// True for routes that count against their key's limits here; generations are counted elsewhere.
bool Counts(Route route) {
  return message::IsKept(route) || route == Route::kModel || route == Route::kPrefixExport ||
         route == Route::kPrefixPin || route == Route::kPrefixUnpin;
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
      targets_(context.targets.Get()),
      is_tls_(targets_->tls != nullptr),
      is_loopback_(IsLoopback(socket)),
      stream_(std::move(socket)),
      waiter_(stream_.get_executor()),
      tick_(stream_.get_executor()),
      // The whole head must fit into the buffer; a body leaves it piece by piece.
      buffer_(2 * context.options.header_bytes_max + 64 * 1024),
      over_limit_(over_limit) {}

void Connection::Drain() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (self->idle_) self->stream_.Cancel();
  });
}

void Connection::EndAnswer() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    if (self->completion_ != nullptr) self->completion_->Cancel();
    if (self->exchange_ != nullptr) self->exchange_->Abort();
  });
}

void Connection::Cancel() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->cancelled_ = true;
    self->stream_.Close();
    self->waiter_.cancel();
    if (self->exchange_ != nullptr) self->exchange_->Abort();
  });
}

Task<void> Connection::Run() {
  beast::error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  bool open = true;
  if (is_tls_) {
    open = co_await BeginTls();
  }
  if (open && over_limit_) {
    open = co_await RefuseOverLimit();
  }
  while (open && !cancelled_) {
    open = co_await WaitForRequest();
    if (!open) break;
    open = co_await ServeOne();
  }
  tick_.cancel();
  if (is_tls_ && !cancelled_) {
    stream_.ExpireAfter(kFarewellTimeout);
    co_await stream_.EndSending();
  }
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  stream_.Close();
}

// Called when the request's head has been read.
void Connection::TakeHead() {
  received_at_ = Clock::now();
  const uint64_t generation = context_.targets.generation();
  if (generation == targets_generation_) return;
  targets_ = context_.targets.Get();
  targets_generation_ = generation;
}

// Rewrites the target to the routes' spelling before anything else reads it.
void Connection::SpellTarget() {
  auto& message = parser_->get();
  const std::string target = message::CanonicalTarget(ToView(message.target()));
  if (target == ToView(message.target())) return;
  message.target(target);
  kind_ = upstream::KindOf(PathOf(target), !Header("anthropic-version").empty());
}

// Returns false if the connection is to be closed; a client that spoke plain HTTP has been answered
// by then.
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
  const beast::error_code failed = co_await stream_.Handshake(*targets_->tls, buffer_.data());
  idle_ = false;
  buffer_.clear();
  if (failed) {
    context_.service.metrics().tls_handshake_failures.Add();
    KVGATE_LOG(kDebug, "http", "a TLS handshake failed: {}", failed.message());
  }
  co_return !failed;
}

Task<void> Connection::RefusePlain() {
  request_id_ = ledger::MakeRequestId();
  keep_alive_ = false;
  Response refusal{.status = 400,
                   .content_type = "text/plain; charset=utf-8",
                   .body = "This port speaks HTTPS, and the request came as plain HTTP.\n"};
  co_await Send(std::move(refusal), "plain_http", false);
  co_await Linger();
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

// Resets everything that belongs to one request.
void Connection::BeginRequest() {
  request_id_ = ledger::MakeRequestId();
  tenant_.reset();
  keep_alive_ = false;
  http_1_0_ = false;
  head_only_ = false;
  probed_ = false;
  needs_model_ = false;
  head_sent_ = false;
  half_closed_at_head_ = false;
  kind_ = {};
  left_out_.clear();
  if (parser_) ReleaseBody();
  scan_ = {};
  decoded_.reset();
  parser_.emplace();
  const size_t header_max = context_.options.header_bytes_max;
  parser_->header_limit(
      static_cast<uint32_t>(std::min<size_t>(header_max, std::numeric_limits<uint32_t>::max())));
  // The route, and with it the exact limit, is known only when the head has been read.
  parser_->body_limit(
      std::max<uint64_t>(context_.options.body_bytes_max, context_.options.import_bytes_max));
}

// Serves one request; returns false if the connection is to be closed.
Task<bool> Connection::ServeOne() {
  BeginRequest();
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
  if (code) {
    const bool again = co_await AnswerReadError(code);
    co_return again;
  }
  TakeHead();
  const auto& message = parser_->get();
  http_1_0_ = message.version() < 11;
  head_only_ = message.method() == bhttp::verb::head;
  kind_ = upstream::KindOf(PathOf(ToView(message.target())), !Header("anthropic-version").empty());
  if (std::optional<Response> refusal = message::CheckMessage(message); refusal) {
    co_await Send(std::move(*refusal), "unreadable", IsOpenAiPath(ToView(message.target())));
    co_await Linger();
    co_return false;
  }
  SpellTarget();
  RouteResult found = message::FindRoute(ToView(message.method_string()), ToView(message.target()));
  parser_->body_limit(BodyLimit(found));
  if (parser_->content_length().value_or(0) > BodyLimit(found)) {
    const bool again = co_await AnswerReadError(bhttp::error::body_limit);
    co_return again;
  }
  keep_alive_ = message.keep_alive() && !context_.draining.load();
  std::optional<Response> refusal = context_.guard.Check(
      {.method = ToView(message.method_string()),
       .host = Header("host"),
       .origin = Header("origin"),
       .content_type = HasNoBody(found) ? "application/json" : Header("content-type"),
       .http_1_0 = http_1_0_,
       .takes_bytes = TakesBytes(found)});
  Identify();
  if (!refusal) {
    const Result<void> allowed =
        access::CheckAccess(found.match ? found.match->access : access::Access::kUser, evidence_);
    refusal = allowed ? message::CheckUpgrade(message) : ErrorResponse(allowed.error());
  }
  bool again = false;
  if (refusal) {
    again = co_await Refuse(std::move(*refusal), "refused");
  } else if (!found.match && ForwardsUnknown(ToView(message.target()))) {
    const message::RouteMatch forwarded{.route = Route::kForwarded,
                                        .name = "/v1/{other}",
                                        .argument = "",
                                        .openai_dialect = true,
                                        .access = access::Access::kUser};
    again = co_await Dispatch(forwarded);
  } else if (!found.match) {
    again = co_await Refuse(std::move(found.refusal), "unknown");
  } else {
    again = co_await Dispatch(std::move(*found.match));
  }
  // A connection that waits for its next request must hold no memory of the last one.
  decoded_.reset();
  ReleaseBody();
  co_return again;
}

Task<bool> Connection::Dispatch(message::RouteMatch match) {
  if (!Header("expect").empty() && !http_1_0_ && !parser_->is_done()) {
    std::string interim(message::kContinue);
    const bool written = co_await Write(std::move(interim));
    if (!written) co_return false;
  }
  if (match.route == Route::kPrefixesImport) {
    const bool again = co_await ServeImport(std::move(match));
    co_return again;
  }
  const bool complete = co_await ReadBody();
  if (!complete) co_return false;
  needs_model_ = message::NamesModel(match.route);
  if (match.route == Route::kPrefixesWarm) {
    const bool again = co_await ServeWarm(std::move(match));
    co_return again;
  }
  if (message::IsGeneration(match.route)) {
    const bool again = co_await ServeGeneration(std::move(match));
    co_return again;
  }
  const bool anthropic = kind_.dialect == upstream::wire::Dialect::kAnthropic;
  if (match.route == Route::kModels && (anthropic || !targets_->upstreams->empty())) {
    const bool again = co_await ServeModels(std::move(match));
    co_return again;
  }
  if (IsForwarded(match)) {
    const bool again = co_await ServeForward(std::move(match));
    co_return again;
  }
  if (Counts(match.route)) {
    const Result<void> admitted = AdmitModel(match.route == Route::kModel ? match.argument : "",
                                             /*is_unknown=*/false);
    if (!admitted) {
      Response refusal = ErrorResponse(admitted.error());
      const bool again = co_await Send(std::move(refusal), match.name, match.openai_dialect);
      co_return again;
    }
  }
  if (match.route == Route::kPrefixExport) {
    const bool again = co_await ServeExport(std::move(match));
    co_return again;
  }
  const bool again = co_await ServeCall(std::move(match));
  co_return again;
}

// Returns false if the body was not read completely; a client that is still there has been answered
// by then.
Task<bool> Connection::ReadBody() {
  lease_ = socket::BodyBudget::Lease(context_.bodies, Tenant());
  if (const auto length = parser_->content_length(); length && !parser_->is_done()) {
    const bool complete = co_await ReadSizedBody(static_cast<size_t>(*length));
    co_return complete;
  }
  // The parser adds trailers to the headers, although they have not been checked and may come from
  // another sender than the head (RFC 9110, 6.5.1). They are dropped.
  std::optional<bhttp::request_header<>> head;
  if (parser_->chunked()) head = parser_->get().base();
  parser_->eager(true);
  const Clock::time_point began = Clock::now();
  while (!parser_->is_done()) {
    const size_t received = parser_->get().body().size();
    if (Result<void> fits = lease_.GrowTo(received + kBodyPieceBytes); !fits) {
      const bool again = co_await RefuseBody(std::move(fits).error());
      co_return again;
    }
    ExpireBody(began, received);
    auto [code, size] = co_await bhttp::async_read_some(stream_, buffer_, *parser_, kAwait);
    if (code) {
      keep_alive_ = false;
      co_await AnswerReadError(code);
      co_return false;
    }
  }
  stream_.ExpireNever();
  lease_.ShrinkTo(parser_->get().body().size());
  if (head) parser_->get().base() = std::move(*head);
  co_return true;
}

// Reads straight into the body, because the parser would copy every byte once more.
Task<bool> Connection::ReadSizedBody(size_t size) {
  std::string& body = parser_->get().body();
  body = socket::TakeBody();
  if (size <= kBodyReservedBytes) body.reserve(size + upstream::kScanPadding);
  const size_t here = std::min(size, buffer_.size());
  if (Result<void> fits = lease_.GrowTo(here); !fits) {
    const bool again = co_await RefuseBody(std::move(fits).error());
    co_return again;
  }
  body.assign(static_cast<const char*>(buffer_.data().data()), here);
  buffer_.consume(here);
  size_t filled = here;
  const Clock::time_point began = Clock::now();
  while (filled < size) {
    // Memory is touched as bytes arrive, not as they are announced.
    if (filled == body.size()) {
      const size_t next = filled + std::min(size - filled, kBodyPieceBytes);
      if (Result<void> fits = lease_.GrowTo(next); !fits) {
        const bool again = co_await RefuseBody(std::move(fits).error());
        co_return again;
      }
      if (filled >= kBodyReservedBytes) body.reserve(size + upstream::kScanPadding);
      body.resize(next);
    }
    ExpireBody(began, filled);
    auto [code, count] = co_await stream_.async_read_some(
        asio::buffer(body.data() + filled, body.size() - filled), kAwait);
    if (code) {
      keep_alive_ = false;
      co_return false;
    }
    filled += count;
  }
  stream_.ExpireNever();
  co_return true;
}

// Releases the part that has arrived before answering, so that other bodies have room.
Task<bool> Connection::RefuseBody(Error error) {
  parser_->get().body() = std::string();
  lease_.Reset();
  keep_alive_ = false;
  const bool openai = IsOpenAiPath(ToView(parser_->get().target()));
  Response refusal = ErrorResponse(error);
  co_await Send(std::move(refusal), "body_refused", openai);
  co_await Linger();
  co_return false;
}

// Bounds the whole body, because a client that sends a byte now and then would hold its connection
// for ever.
void Connection::ExpireBody(Clock::time_point began, size_t received) {
  const ServerOptions& options = context_.options;
  Clock::time_point deadline = Clock::now() + options.body_timeout;
  if (options.body_bytes_per_second_min > 0) {
    const auto allowed =
        std::chrono::milliseconds(received * 1000 / options.body_bytes_per_second_min);
    deadline = std::min(deadline, began + kSlowBodyTimeouts * options.body_timeout + allowed);
  }
  stream_.ExpireAt(deadline);
}

void Connection::ReleaseBody() {
  socket::ReturnBody(std::exchange(parser_->get().body(), {}));
  lease_.Reset();
}

Task<bool> Connection::AnswerReadError(beast::error_code code) {
  if (IsClosed(code)) co_return false;
  Response response;
  if (code == bhttp::error::body_limit) {
    response = ErrorResponse(
        MakeError(ErrorCode::kTooLarge, "http",
                  fmt::format("The request body is larger than the limit of {} bytes.",
                              BodyLimit(message::FindRoute(ToView(parser_->get().method_string()),
                                                           ToView(parser_->get().target()))))));
  } else if (code == bhttp::error::header_limit || code == bhttp::error::buffer_overflow) {
    response =
        message::StatusResponse(431, fmt::format("The request's head is larger than {} bytes.",
                                                 context_.options.header_bytes_max));
  } else {
    response = message::StatusResponse(
        400, fmt::format("This is not a readable HTTP request: {}.", code.message()));
  }
  keep_alive_ = false;
  const bool openai = parser_ && IsOpenAiPath(ToView(parser_->get().target()));
  co_await Send(std::move(response), "unreadable", openai);
  co_await Linger();
  co_return false;
}

// Answers a request whose body has not been read.
Task<bool> Connection::Refuse(Response refusal, std::string_view route) {
  const auto length = parser_->content_length();
  const bool has_body = parser_->chunked() || (length && *length > 0);
  const bool small = !has_body || (length && *length <= kDrainedBodyBytes);
  const bool waits = !Header("expect").empty();
  const bool openai = IsOpenAiPath(ToView(parser_->get().target()));
  if (small && !waits) {
    const bool complete = co_await ReadBody();
    if (!complete) co_return false;
    const bool again = co_await Send(std::move(refusal), route, openai);
    co_return again;
  }
  keep_alive_ = false;
  co_await Send(std::move(refusal), route, openai);
  co_await Linger(kDrainedRefusalBytes);
  co_return false;
}

Task<bool> Connection::RefuseOverLimit() {
  request_id_ = ledger::MakeRequestId();
  keep_alive_ = false;
  Response refusal = ErrorResponse(MakeError(
      ErrorCode::kOverloaded, "http",
      fmt::format("All {} connections are in use; try again.", context_.options.connections_max)));
  co_await Send(std::move(refusal), "over_limit", false);
  co_await Linger();
  co_return false;
}

Task<void> Connection::Linger() {
  const size_t one_body = context_.options.body_bytes_max + kDrainedBeyondBytes;
  co_await Linger(std::max(one_body, kDrainedBytesMin));
}

// Reads and drops what a client is still sending, so that it can read its answer: closing with
// unread bytes would reset the connection and could discard the answer. After bytes_max nothing
// more is read; the client, held up by that, has the rest of the time to read its answer.
Task<void> Connection::Linger(size_t bytes_max) {
  const Clock::time_point deadline = Clock::now() + context_.options.linger_timeout;
  stream_.ExpireAt(deadline);
  co_await stream_.EndSending();
  buffer_.clear();
  size_t total = 0;
  while (total < bytes_max && !cancelled_) {
    stream_.ExpireAt(deadline);
    auto [code, size] =
        co_await stream_.lower().async_read_some(buffer_.prepare(64 * 1024), kAwait);
    if (code) co_return;
    total += size;
  }
  while (!cancelled_ && Clock::now() < deadline && PollPeer() == Peer::kThere) {
    waiter_.expires_after(context_.options.poll_interval);
    co_await waiter_.async_wait(kAwait);
  }
}

// --- waiting ----------------------------------------------------------------------------------

// A client that has shut down its sending side looks the same as one that has left until bytes are
// sent to it: one that left answers with a reset, which the next poll sees. Requests that the
// client sent before that, including pipelined ones, are answered.
Task<bool> Connection::WaitForProgress(std::string probe) {
  waiter_.expires_after(context_.options.poll_interval);
  co_await waiter_.async_wait(kAwait);
  if (cancelled_) co_return false;
  const Peer peer = PollPeer();
  if (peer == Peer::kGone) co_return false;
  if (peer == Peer::kHalfClosed && !probed_) {
    if (probe.empty()) co_return false;
    probed_ = true;
    const bool written = co_await Write(std::move(probe));
    co_return written;
  }
  co_return true;
}

Connection::Peer Connection::PollPeer() {
  pollfd state{.fd = stream_.socket().native_handle(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&state, 1, 0) <= 0) return Peer::kThere;
  if ((state.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return Peer::kGone;
  return (state.revents & POLLRDHUP) != 0 ? Peer::kHalfClosed : Peer::kThere;
}

// With TLS the socket's bytes may be a close_notify, so only decrypted bytes count.
bool Connection::HasUnread() {
  if (buffer_.size() > 0 || is_tls_) return buffer_.size() > 0;
  beast::error_code code;
  return stream_.socket().available(code) > 0 && !code;
}

std::function<void()> Connection::MakeWake() {
  return [weak = weak_from_this(), executor = stream_.get_executor()] {
    asio::post(executor, [weak] {
      if (const auto self = weak.lock()) self->waiter_.cancel();
    });
  };
}

// --- shared -----------------------------------------------------------------------------------

Task<bool> Connection::Send(Response response, std::string_view route, bool openai_dialect) {
  if (context_.draining.load()) keep_alive_ = false;
  Count(route, response.status);
  const bool anthropic = kind_.dialect == upstream::wire::Dialect::kAnthropic;
  if (anthropic) message::ToMessagesError(request_id_, response);
  std::string bytes = message::ResponseHead(response, Head(openai_dialect));
  if (!head_only_) bytes += response.body;
  const bool written = co_await Write(std::move(bytes));
  co_return written&& keep_alive_;
}

Task<bool> Connection::Write(std::string bytes) {
  stream_.ExpireAfter(context_.options.write_timeout);
  const bool written = co_await upstream::wire::WriteAll(stream_, {bytes});
  stream_.ExpireNever();
  co_return written;
}

// Frames a piece of a stream for the wire; an empty piece stays empty.
std::string Connection::Frame(std::string_view data) const {
  return http_1_0_ || data.empty() ? std::string(data) : message::Chunk(data);
}

message::HeadOptions Connection::Head(bool openai_dialect) const {
  return {.request_id = request_id_,
          .dialect_id_name = !openai_dialect ? std::string_view()
                             : kind_.dialect == upstream::wire::Dialect::kAnthropic
                                 ? "request-id"
                                 : "x-request-id",
          .keep_alive = keep_alive_,
          .http_1_0 = http_1_0_,
          .left_out = left_out_};
}

std::string_view Connection::Header(std::string_view name) const {
  return ToView(parser_->get()[beast::string_view(name.data(), name.size())]);
}

uint64_t Connection::BodyLimit(const RouteResult& found) const {
  return TakesBytes(found) ? context_.options.import_bytes_max : context_.options.body_bytes_max;
}

void Connection::Count(std::string_view route, int status) {
  const fmt::format_int text(status);
  context_.service.metrics().requests.With({route, {text.data(), text.size()}}).Add();
  KVGATE_LOG(kDebug, "http", "request {}: {} {}", request_id_, route, status);
}

}  // namespace kvgate::http
