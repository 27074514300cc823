// ClientSink: answers go out through it to the client of one connection, as HTTP/1 writes them.
//
// A client that has shut down its sending side looks the same as one that has left until bytes are
// sent to it: one that left answers with a reset, which the next look at the socket sees. So it is
// probed once: before the answer's head by `100 Continue`, between the events of a stream of the
// gateway's own by a comment. Nothing may be added to an upstream's answer: there, a client that
// shuts down its sending side after the head counts as gone, unless further requests of it wait.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/http/body_reader.h"
#include "gateway/http/message/response_head.h"
#include "gateway/http/server.h"
#include "gateway/http/socket/client_stream.h"
#include "gateway/http/socket/task.h"
#include "gateway/proxy/request/response_sink.h"

namespace kvgate::http {

class ClientSink final : public proxy::request::ResponseSink {
 public:
  struct Args {
    socket::ClientStream& stream;
    const boost::beast::flat_buffer& buffer;  // bytes that were read too early
    const BodyReader& body;
    const ServerOptions& options;
    const std::atomic<bool>& closes_connections;  // with their next answer
    bool is_tls = false;
  };
  explicit ClientSink(Args args);
  // Keeps what the sink is a part of alive while something is pending.
  void SetOwner(std::weak_ptr<void> owner) { owner_ = std::move(owner); }

  struct Request {
    bool keep_alive = false;
    bool http_1_0 = false;
    bool is_head = false;
  };
  void BeginRequest(Request request);
  // True if the connection can be kept after this request. Answers say so in their heads.
  bool keep_alive() const { return request_.keep_alive; }
  void CloseAfter() { request_.keep_alive = false; }
  // True once a whole answer has gone out.
  bool is_answered() const { return is_answered_; }

  // Writes bytes that are no answer. Returns false if the client is gone.
  socket::Task<bool> WriteRaw(std::string_view bytes);
  // The server gives the request up, or wants its answer to end.
  void Cancel() { SetCancelled(); }
  void EndAnswer() { SetToEnd(); }
  // No more ticks.
  void Stop() { tick_.cancel(); }

  enum class Peer : uint8_t { kThere, kHalfClosed, kGone };
  Peer PollPeer();

  socket::Task<bool> Send(proxy::request::Response response,
                          proxy::request::ReplyInfo info) override;
  void Begin(const proxy::request::AnswerHead& head) override;
  socket::Task<bool> Write(std::string_view piece, bool is_last) override;
  void Cut() override;

 private:
  void OnWatch() override { ArmTick(); }
  void ArmTick();
  void OnTick();
  // Sends a few bytes to a half-closed client; returns false if they cannot be sent.
  bool Probe();
  // True if bytes of further requests have arrived behind the current one.
  bool HasUnread();
  message::HeadOptions Options(const proxy::request::ReplyInfo& info) const;

  const Args args_;
  std::weak_ptr<void> owner_;
  boost::asio::steady_timer tick_;  // armed while a request is watched and up to one tick longer
  Request request_;
  std::string head_text_;   // goes out with the first piece
  std::string ping_;        // may go out between two pieces; empty: nothing may
  std::string probe_text_;  // the ping as it is on the wire
  bool is_tick_armed_ = false;
  bool is_chunked_ = false;
  bool is_forwarded_ = false;
  bool has_head_ = false;  // the answer has begun
  bool is_writing_ = false;
  bool is_answered_ = false;
  bool is_probed_ = false;
  bool was_half_closed_ = false;  // when the answer's head went out
};

}  // namespace kvgate::http
