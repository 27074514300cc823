// Exchange: one request to one upstream and its answer, piece by piece.
//
// Threads: one executor. Start and Read are coroutines; Tick and Abort are called on the same
// executor while those wait. Only Read reads from the upstream, so a slow client slows its upstream
// and memory holds one piece. The answer is read while the request is still being sent, because an
// upstream may refuse a body without reading it. After such an answer the connection is not kept.
//
// A request is sent again only if the upstream cannot have received it completely: there was no
// connection, or a kept connection was closed while the request was being written. With retry =
// "reset" it is also sent again if the connection ended before any byte of an answer.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "gateway/upstream/upstream.h"
#include "gateway/upstream/wire/header_rules.h"
#include "gateway/upstream/wire/piece_body.h"
#include "gateway/upstream/wire/read_buffers.h"
#include "gateway/upstream/wire/task.h"

namespace kvgate::upstream {

class Exchange {
 public:
  using Clock = SteadyClock;

  // `upstream` must outlive the exchange. `executor` is the caller's own and runs one handler at a
  // time.
  Exchange(Upstream& upstream, const Upstream::Executor& executor)
      : upstream_(upstream), executor_(executor) {}
  // Keeps the connection if the answer was read to its end; closes it otherwise.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  struct Request {
    std::string_view head;  // see RequestHead
    std::string_view body;
    bool head_only = false;  // HEAD: the answer has no body
  };
  // `on_sent` is called when the whole request has been handed to the socket; never if the answer
  // ended first.
  void OnSent(std::function<void()> on_sent) { on_sent_ = std::move(on_sent); }
  // Connects, sends the request and reads the answer's head. The views in `request` must live until
  // Start returns and, if sending() is then true, until it is false or the exchange is destroyed.
  // Errors: kOverloaded if all connections are in use or the breaker is open, kDeadline after a
  // timeout, kUnavailable without a connection or a readable answer, kCancelled after Abort.
  wire::Task<Result<void>> Start(Request request);

  // The answer's head; valid after Start. Views into the exchange.
  int status() const;
  std::string_view reason() const;
  const wire::HeaderFields& fields() const { return fields_; }
  // True if the head gives no body length: the body comes in chunks or ends with the connection.
  bool length_unknown() const;
  bool finished() const { return finished_; }
  // True while a part of the request has not been handed to the socket.
  bool sending() const { return sending_ != nullptr; }

  // Takes the bytes of the body that have already arrived, without waiting; may be empty.
  std::string TakeReady();
  // Returns the next piece, of at least a byte; empty if the body is complete. Fails if it broke
  // off.
  wire::Task<Result<std::string>> Read();

  // Sets a time at which the exchange ends with an error, whatever it waits for.
  void BoundBy(Clock::time_point end) { end_ = end; }
  // Enforces the timeouts; must be called regularly.
  void Tick(Clock::time_point now);
  // Pending operations end with kCancelled.
  void Abort();

  struct Times {
    std::optional<Clock::time_point> connected;
    std::optional<Clock::time_point> sent;
    std::optional<Clock::time_point> first_byte;
  };
  const Times& times() const { return times_; }
  int num_attempts() const { return num_attempts_; }

 private:
  using Parser = boost::beast::http::response_parser<wire::PieceBody>;
  // Bytes read at once, and so passed on at once; at the maximum a slow client holds about twice as
  // many. Most answers and events are small, so only a read that fills its buffer gets a larger
  // one.
  static constexpr size_t kPieceBytesMin = 16 * 1024;
  static constexpr size_t kPieceBytesMax = 64 * 1024;
  enum class Attempt { kDone, kNotReceived, kNoAnswer, kFailed };
  enum class Stage { kIdle, kConnecting, kWaiting, kReading };
  // A request that did not fit into the socket's buffer, until all of it is written. If the
  // exchange gives it up first, it takes over the closed channel, because the pending write still
  // uses the stream.
  struct Sending {
    Exchange* exchange = nullptr;  // null: the exchange has given it up
    std::unique_ptr<wire::Channel> channel;
    std::string joined;
  };

  wire::Task<Attempt> TryOnce(Request request);
  wire::Task<bool> Connect();
  void BeginSending(Request request);
  void EndSending(bool sent);
  wire::Task<bool> ReadHead();
  wire::Task<boost::system::error_code> ReadSome();
  // Parses the buffered bytes: only the head, or the part that follows it.
  boost::beast::error_code Parse();
  void KeepFields();
  // Says why the head leaves the body's end unclear; empty if it does not.
  std::string_view FramingFault() const;
  void Enter(Stage stage);
  void Fail(ErrorCode code, std::string detail);
  Error StageError() const;
  bool MayRetry(Attempt attempt) const;
  void DropChannel();

  Upstream& upstream_;
  const Upstream::Executor executor_;
  std::unique_ptr<wire::Channel> channel_;
  std::shared_ptr<Sending> sending_;
  bool sent_ = false;  // the whole request
  bool reserved_ = false;
  bool reused_ = false;
  bool head_only_ = false;
  bool any_byte_ = false;  // of the answer
  bool finished_ = false;
  bool aborted_ = false;
  bool timed_out_ = false;
  Stage stage_ = Stage::kIdle;
  Clock::time_point deadline_ = Clock::time_point::max();
  Clock::time_point end_ = Clock::time_point::max();
  boost::beast::flat_buffer buffer_ = wire::TakeReadBuffer();
  size_t piece_bytes_ = kPieceBytesMin;  // bytes read at once
  std::optional<Parser> parser_;
  wire::HeaderFields fields_;  // views into the parser; without trailers
  std::optional<Error> error_;
  std::function<void()> on_sent_;
  Times times_;
  int num_attempts_ = 0;
};

// Returns the rest of an answer's body, or what there is of it once that is more than `bytes_max`;
// finished() tells which. Fails if it broke off.
wire::Task<Result<std::string>> ReadRest(Exchange& exchange, size_t bytes_max);
// Starts the exchange and returns the body as ReadRest does. Fails as Start and ReadRest do. The
// views in `request` must live until it returns.
wire::Task<Result<std::string>> Fetch(Exchange& exchange, Exchange::Request request,
                                      size_t bytes_max);

}  // namespace kvgate::upstream
