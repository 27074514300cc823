#include "gateway/http/client_sink.h"

#include <fmt/format.h>
#include <poll.h>

#include <iterator>
#include <utility>

#include "gateway/upstream/wire/header_rules.h"
#include "gateway/upstream/wire/write_all.h"

namespace kvgate::http {

using proxy::request::AnswerHead;
using socket::Task;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace

ClientSink::ClientSink(Args args)
    : ResponseSink(args.stream.get_executor()), args_(args), tick_(args.stream.get_executor()) {}

void ClientSink::BeginRequest(Request request) {
  Reset();
  request_ = request;
  head_text_.clear();
  ping_.clear();
  is_chunked_ = is_forwarded_ = has_head_ = is_answered_ = is_probed_ = was_half_closed_ = false;
}

message::HeadOptions ClientSink::Options(const proxy::request::ReplyInfo& info) const {
  return {.request_id = info.request_id,
          .dialect_id_name = info.dialect_id_name,
          .keep_alive = request_.keep_alive,
          .http_1_0 = request_.http_1_0,
          .left_out = info.left_out,
          .compaction = info.compaction,
          .prompt = info.prompt};
}

Task<bool> ClientSink::WriteRaw(std::string_view bytes) {
  args_.stream.ExpireAfter(args_.options.write_timeout);
  const bool written = co_await upstream::wire::WriteAll(args_.stream, {bytes});
  args_.stream.ExpireNever();
  co_return written;
}

Task<bool> ClientSink::Send(proxy::request::Response response, proxy::request::ReplyInfo info) {
  if (args_.closes_connections.load() || !args_.body.is_complete()) CloseAfter();
  const std::string head = message::ResponseHead(response, Options(info));
  const std::string_view body = request_.is_head ? std::string_view() : response.body;
  has_head_ = is_writing_ = true;
  args_.stream.ExpireAfter(args_.options.write_timeout);
  const bool written = co_await upstream::wire::WriteAll(args_.stream, {head, body});
  args_.stream.ExpireNever();
  is_writing_ = false;
  is_answered_ = written;
  if (!written) SetLeft();
  co_return written;
}

void ClientSink::Begin(const AnswerHead& head) {
  is_forwarded_ = head.kind == AnswerHead::Kind::kForwarded;
  const bool is_sized = is_forwarded_ && head.is_sized;
  is_chunked_ = !is_sized && !request_.http_1_0;
  const bool ends_with_connection = !is_sized && request_.http_1_0;
  if (args_.closes_connections.load() || ends_with_connection || !args_.body.is_complete())
    CloseAfter();
  switch (head.kind) {
    case AnswerHead::Kind::kEvents:
      head_text_ = message::StreamHead(Options(head.info));
      break;
    case AnswerHead::Kind::kDownload:
      head_text_ = message::DownloadHead(Options(head.info), head.file_name);
      break;
    case AnswerHead::Kind::kForwarded:
      head_text_ = upstream::wire::ForwardedHead({.status = head.status,
                                                  .reason = head.reason,
                                                  .fields = *head.fields,
                                                  .request_id = head.info.request_id,
                                                  .compaction = head.info.compaction,
                                                  .prompt = head.info.prompt,
                                                  .keep_alive = request_.keep_alive,
                                                  .http_1_0 = request_.http_1_0,
                                                  .chunked = is_chunked_});
      break;
  }
  if (!is_forwarded_ && request_.is_head) is_chunked_ = false;
  ping_ = head.ping;
  has_head_ = true;
}

Task<bool> ClientSink::Write(std::string_view piece, bool is_last) {
  std::string before = std::exchange(head_text_, {});
  const bool begins = !before.empty();
  std::string_view after;
  if (is_chunked_ && !piece.empty()) {
    fmt::format_to(std::back_inserter(before), "{:x}\r\n", piece.size());
    after = is_last ? "\r\n0\r\n\r\n" : "\r\n";
  } else if (is_chunked_ && is_last) {
    after = kLastChunk;
  }
  if (before.empty() && piece.empty() && after.empty()) {
    is_answered_ = is_last;
    co_return true;
  }
  // A client that has left before the head will answer it with a reset.
  if (begins && !is_last) was_half_closed_ = PollPeer() == Peer::kHalfClosed;
  is_writing_ = true;
  upstream::wire::WriteParts parts = {before, piece, after};
  bool written = upstream::wire::WriteNow(args_.stream, parts);
  if (!written) {
    args_.stream.ExpireAfter(args_.options.write_timeout);
    auto [code, size] = co_await upstream::wire::WriteRest(args_.stream, parts, socket::kAwait);
    written = !code;
    args_.stream.ExpireNever();
  }
  is_writing_ = false;
  is_answered_ = written && is_last;
  if (!written) SetLeft();
  co_return written;
}

void ClientSink::Cut() {
  CloseAfter();
  // If the body ends with the connection, only a reset shows the client that it was cut.
  if (request_.http_1_0) args_.stream.ResetAtEnd();
}

// One timer serves all requests of the connection: arming it for each request would cost more than
// a tick that finds no work.
void ClientSink::ArmTick() {
  if (std::exchange(is_tick_armed_, true)) return;
  tick_.expires_after(args_.options.poll_interval);
  tick_.async_wait([this, owner = owner_.lock()](const boost::system::error_code& code) {
    is_tick_armed_ = false;
    if (!code && is_watched()) OnTick();
  });
}

void ClientSink::OnTick() {
  TellTick(Clock::now());
  const Peer peer = PollPeer();
  bool is_left = peer == Peer::kGone;
  if (peer == Peer::kHalfClosed && !is_probed_) {
    if (has_head_ && ping_.empty()) {
      // A client that waits for the answers to further requests has not left.
      is_left = head_text_.empty() && !was_half_closed_ && !HasUnread();
    } else if (!is_writing_) {
      is_probed_ = true;
      is_left = !Probe();
    }
  }
  if (is_left) {
    SetLeft();
  } else if (is_watched()) {
    ArmTick();
  }
}

// Hardly any byte of the answer is on its way, so these few bytes fit and mix with no others.
bool ClientSink::Probe() {
  if (!has_head_) {
    return !request_.http_1_0 && args_.stream.SendNow(message::kContinue, owner_.lock());
  }
  probe_text_ = is_chunked_ ? message::Chunk(ping_) : ping_;
  return args_.stream.SendNow(probe_text_, owner_.lock());
}

ClientSink::Peer ClientSink::PollPeer() {
  pollfd state{.fd = args_.stream.socket().native_handle(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&state, 1, 0) <= 0) return Peer::kThere;
  if ((state.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return Peer::kGone;
  return (state.revents & POLLRDHUP) != 0 ? Peer::kHalfClosed : Peer::kThere;
}

// With TLS the socket's bytes may be a close_notify, so only decrypted bytes count.
bool ClientSink::HasUnread() {
  if (args_.buffer.size() > 0 || args_.is_tls) return args_.buffer.size() > 0;
  boost::system::error_code code;
  return args_.stream.socket().available(code) > 0 && !code;
}

}  // namespace kvgate::http
