// Connection: one client socket, from accept to close. Requests are read and answered one after the
// other; bytes that arrive early (pipelining) wait in the buffer or in the kernel. What answers
// them (gateway/proxy) knows the client only as a sink.
//
// Threads: everything runs on the connection's thread except Drain, EndAnswer and Cancel, which
// post to it. While an answer is awaited nobody reads the socket, so pipelined bytes stay
// untouched; the sink looks at the socket's state instead.
#pragma once

#include <atomic>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/body_reader.h"
#include "gateway/http/client_sink.h"
#include "gateway/http/current_tls.h"
#include "gateway/http/message/request_guard.h"
#include "gateway/http/server.h"
#include "gateway/http/socket/client_stream.h"
#include "gateway/http/socket/task.h"
#include "gateway/proxy/handler/entry.h"
#include "gateway/proxy/handler/router.h"
#include "gateway/proxy/request/environment.h"
#include "gateway/proxy/request/request_context.h"

namespace kvgate::http {

// State that all connections share; it outlives them.
struct ConnectionContext {
  const ServerOptions& options;
  const message::RequestGuard& guard;
  const CurrentTls& tls;
  proxy::request::Environment& environment;
  std::atomic<bool> draining{false};
  // Each answer is the last of its connection; set before or with `draining`.
  std::atomic<bool> closes_connections{false};

  size_t body_bytes_max() const { return environment.options.body_bytes_max; }
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `socket`'s executor must run one handler at a time.
  Connection(boost::asio::ip::tcp::socket socket, ConnectionContext& context, bool over_limit);

  // Serves the connection from start to close. No input from a client makes it throw.
  socket::Task<void> Run();
  // Closes the connection when it is idle or after the current answer. Callable from any thread.
  void Drain();
  // Ends the current answer, if any, with an error that the client can read. Callable from any
  // thread.
  void EndAnswer();
  // Closes the connection at once and cancels the current answer. Callable from any thread.
  void Cancel();

  boost::asio::any_io_executor executor() { return stream_.get_executor(); }

 private:
  using RouteResult = proxy::handler::RouteResult;

  // Returns false if the connection is to be closed; a client that spoke plain HTTP has been
  // answered by then.
  socket::Task<bool> BeginTls();
  socket::Task<void> RefusePlain();
  socket::Task<bool> WaitForRequest();
  // Resets everything that belongs to one request.
  void BeginRequest();
  // Serves one request; returns false if the connection is to be closed.
  socket::Task<bool> ServeOne();
  socket::Task<boost::system::error_code> ReadHead();
  // Takes what the head says; rewrites the target to the routes' spelling before anything reads it.
  void TakeHead();
  proxy::request::RequestHead HeadOfRequest();
  // The refusal of a request by its head, if that does not say what it must.
  std::optional<proxy::request::Response> CheckHead(const RouteResult& found);
  socket::Task<bool> Answer(proxy::handler::RouteMatch match);
  // Returns false if the body was not read; a client that is still there has been answered then.
  socket::Task<bool> ReadBody();
  socket::Task<bool> RefuseOverLimit();
  socket::Task<bool> AnswerReadError(boost::system::error_code code, uint64_t body_limit);
  // Answers a request whose body has not been read.
  socket::Task<bool> Refuse(proxy::request::Response refusal, std::string_view route);
  // Answers, and closes the connection when the client has read that.
  socket::Task<void> RefuseAndClose(proxy::request::Response refusal, std::string_view route);
  // Sends a response of this layer; `route` is its name in the metrics.
  socket::Task<bool> Send(proxy::request::Response response, std::string_view route);
  // Reads and drops what a client is still sending, so that it can read its answer: closing with
  // unread bytes would reset the connection and could discard the answer. After bytes_max nothing
  // more is read; the client, held up by that, has the rest of the time to read its answer.
  socket::Task<void> Linger(size_t bytes_max);
  size_t LingerBytes() const;

  ConnectionContext& context_;
  const std::shared_ptr<const socket::ListenerTls> tls_;  // null: plain HTTP
  // Targets of the current request. They are taken after its head, so a kept connection gets the
  // newest.
  std::shared_ptr<const proxy::request::Targets> targets_;
  uint64_t targets_generation_ = 0;
  const bool is_loopback_;
  socket::ClientStream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<BodyReader::Parser> parser_;
  BodyReader body_;
  ClientSink sink_;
  std::string request_id_;
  std::chrono::steady_clock::time_point received_at_;  // the end of the request's head
  std::optional<proxy::request::RequestContext> request_;
  bool idle_ = false;
  const bool over_limit_;
};

}  // namespace kvgate::http
