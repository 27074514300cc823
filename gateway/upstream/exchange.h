// Exchange: one request to one upstream and its answer, piece by piece.
//
// Threads: one executor. Start and Read are its coroutine's; Tick and Abort are called between
// their waits, on the same one. Nothing is read from the upstream but by Read, so that a client
// that reads slowly slows its upstream: what is in memory is one piece. The answer is read while
// the request is still being sent: an upstream may refuse a body that it does not read. After such
// an answer the connection is not kept.
//
// A request is sent again only where the upstream cannot have received it whole: no connection, or
// a kept connection that was closed while it was being written; and, with retry = "reset", where
// the connection ended without a byte of an answer.
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

#include <kvgate/result.h>

#include "gateway/upstream/wire/header_rules.h"
#include "gateway/upstream/piece_body.h"
#include "gateway/upstream/wire/read_buffers.h"
#include "gateway/upstream/wire/task.h"
#include "gateway/upstream/upstream.h"

namespace kvgate::upstream {

class Exchange {
 public:
  using Clock = std::chrono::steady_clock;

  // The upstream outlives it. `executor` is the caller's own, and runs one thing at a time.
  Exchange(Upstream& upstream, const Upstream::Executor& executor)
      : upstream_(upstream), executor_(executor) {}
  // Keeps the connection where the answer was read to its end; closes it otherwise.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  struct Request {
    std::string_view head;  // see RequestHead
    std::string_view body;
    bool head_only = false;  // HEAD: the answer has no body
  };
  // Called when the whole request has been handed over; not at all where the answer ended first.
  void OnSent(std::function<void()> on_sent) { on_sent_ = std::move(on_sent); }
  // Connects, sends, reads the answer's head. What `request` shows lives until it returns, and on
  // until sending() is over or the exchange ends.
  // kOverloaded: all connections in use, or the breaker is open. kDeadline: a timeout.
  // kUnavailable: no connection, or no readable answer. kCancelled: aborted.
  Task<Result<void>> Start(Request request);

  // Of the answer, after Start; views into it.
  int status() const;
  std::string_view reason() const;
  const HeaderFields& fields() const { return fields_; }
  // Its body's length does not stand in the head: it came in chunks, or ends with the connection.
  bool length_unknown() const;
  bool finished() const { return finished_; }
  // Part of the request is still to be handed over.
  bool sending() const { return sending_ != nullptr; }

  // What has come of the body already, without waiting; may be empty.
  std::string TakeReady();
  // The next piece, at least a byte, or empty: the body is complete. An error: it broke off.
  Task<Result<std::string>> Read();

  // Ends it by then, whatever it waits for.
  void BoundBy(Clock::time_point end) { end_ = end; }
  // Ends what has waited too long. Call it every so often.
  void Tick(Clock::time_point now);
  // Whatever is awaited ends with kCancelled.
  void Abort();

  struct Times {
    std::optional<Clock::time_point> connected;
    std::optional<Clock::time_point> sent;
    std::optional<Clock::time_point> first_byte;
  };
  const Times& times() const { return times_; }
  int num_attempts() const { return num_attempts_; }

 private:
  using Parser = boost::beast::http::response_parser<PieceBody>;
  // Read at once, and so passed on at once; with the larger a slow client holds about twice that.
  // Most answers and events are small: only what fills its room gets more.
  static constexpr size_t kPieceBytesMin = 16 * 1024;
  static constexpr size_t kPieceBytesMax = 64 * 1024;
  enum class Attempt { kDone, kNotReceived, kNoAnswer, kFailed };
  enum class Stage { kIdle, kConnecting, kWaiting, kReading };
  // A request that did not fit into the socket's buffer, until it has been handed over. Where the
  // exchange lets go of it first, it takes the closed channel along: the stream below is still
  // being used.
  struct Sending {
    Exchange* exchange = nullptr;  // null: it has let go
    std::unique_ptr<Channel> channel;
    std::string joined;
  };

  Task<Attempt> TryOnce(Request request);
  Task<bool> Connect();
  void BeginSending(Request request);
  void EndSending(bool sent);
  Task<bool> ReadHead();
  Task<boost::system::error_code> ReadSome();
  // Feeds the parser with what is in the buffer, the head alone or what follows it.
  boost::beast::error_code Parse();
  void KeepFields();
  // Why the answer's head does not say clearly where its body ends; empty: it does.
  std::string_view FramingFault() const;
  void Enter(Stage stage);
  void Fail(ErrorCode code, std::string detail);
  Error StageError() const;
  bool MayRetry(Attempt attempt) const;
  void DropChannel();

  Upstream& upstream_;
  const Upstream::Executor executor_;
  std::unique_ptr<Channel> channel_;
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
  boost::beast::flat_buffer buffer_ = TakeReadBuffer();
  size_t piece_bytes_ = kPieceBytesMin;  // read at once
  std::optional<Parser> parser_;
  HeaderFields fields_;  // views into the parser; without trailers
  std::optional<Error> error_;
  std::function<void()> on_sent_;
  Times times_;
  int num_attempts_ = 0;
};

}  // namespace kvgate::upstream
