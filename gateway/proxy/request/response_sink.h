// ResponseSink: who a request is answered to. An HTTP connection, a caller in this process and a
// test implement it; what answers a request knows nothing else of its client.
//
// One answer goes out for each request: either Send, or Begin and then Write until the last piece
// or Cut. Write returns when the client can take more, which holds the provider back. A client that
// leaves is noticed by the sink: it tells the watcher, and every later call returns false.
//
// Threads: everything runs on `executor`, which runs one handler at a time.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/proxy/request/response.h"
#include "gateway/proxy/work/wake_signal.h"
#include "gateway/upstream/wire/header_rules.h"
#include "gateway/upstream/wire/task.h"

namespace kvgate::proxy::request {

using upstream::wire::kAwait;
using upstream::wire::Task;

// The gateway's own words about a request, which every answer's head carries.
struct ReplyInfo {
  std::string_view request_id;            // x-kvgate-request-id
  std::string_view dialect_id_name = {};  // the dialect's own header for it; empty: none
  std::string_view left_out = {};         // x-kvgate-left-out: parts that were not understood
  std::string_view compaction = {};       // x-kvgate-compaction: of its session; empty: it has none
  std::string_view prompt = {};           // x-kvgate-prompt: NAME@VERSION; empty: it names none
};

// The head of an answer that goes out in pieces.
struct AnswerHead {
  enum class Kind : uint8_t {
    kEvents,     // server-sent events of the gateway's own
    kForwarded,  // an upstream's status and headers
    kDownload,   // bytes to be saved as `file_name`
  };
  Kind kind = Kind::kEvents;
  ReplyInfo info;
  int status = 200;
  std::string_view reason = {};                          // forwarded: the upstream's
  const upstream::wire::HeaderFields* fields = nullptr;  // forwarded: the upstream's
  bool is_sized = false;            // forwarded: the fields give the body's length
  std::string_view ping = {};       // events: bytes that may go out between two pieces
  std::string_view file_name = {};  // download
};

// Told about the client while an answer is awaited or under way. One that does nothing makes the
// sink look for a client that leaves, which wakes whoever sleeps.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // Called now and then, at least every second, with the present time.
  virtual void OnTick(std::chrono::steady_clock::time_point /*now*/) {}
  // The client has left, or the server gives the request up: nothing more can be sent. Called once.
  virtual void OnGone() {}
  // The server wants the answer to end soon, with an error that the client can read. Whoever begins
  // to watch later is told at once.
  virtual void OnEnd() {}
};

class ResponseSink {
 public:
  using Executor = boost::asio::any_io_executor;
  explicit ResponseSink(const Executor& executor) : executor_(executor), signal_(executor) {}
  virtual ~ResponseSink() = default;
  ResponseSink(const ResponseSink&) = delete;
  ResponseSink& operator=(const ResponseSink&) = delete;

  const Executor& executor() const { return executor_; }
  // By which the request's coroutine sleeps.
  work::WakeSignal& signal() { return signal_; }

  // True once the client has left.
  bool has_left() const { return has_left_; }
  // True once the server has given the request up.
  const bool& is_cancelled() const { return is_cancelled_; }
  bool is_gone() const { return has_left_ || is_cancelled_; }
  // True once the server has said that it wants answers to end, which it does not take back.
  bool is_to_end() const { return is_to_end_; }
  // `watcher` is told about the client until it is replaced; null: nobody is.
  void Watch(Watcher* watcher) {
    watcher_ = watcher;
    if (watcher == nullptr) return;
    OnWatch();
    if (is_to_end_) watcher->OnEnd();
  }

  // Sends a whole answer. These return false if the client is gone.
  virtual Task<bool> Send(Response response, ReplyInfo info) = 0;
  // The head goes out with the first piece, which may be empty. `head` and what it refers to must
  // live until the last piece.
  virtual void Begin(const AnswerHead& head) = 0;
  // `piece` must live until it returns.
  virtual Task<bool> Write(std::string_view piece, bool is_last) = 0;
  // The answer that was begun ends here, incomplete, in a way that its client can tell.
  virtual void Cut() = 0;

 protected:
  // An implementation calls these for its client and its server.
  void SetLeft() {
    if (!std::exchange(has_left_, true)) TellGone();
  }
  void SetCancelled() {
    if (!std::exchange(is_cancelled_, true)) TellGone();
  }
  void TellTick(std::chrono::steady_clock::time_point now) {
    if (watcher_ != nullptr) watcher_->OnTick(now);
  }
  void SetToEnd() {
    if (std::exchange(is_to_end_, true)) return;
    signal_.Wake();
    if (watcher_ != nullptr) watcher_->OnEnd();
  }
  bool is_watched() const { return watcher_ != nullptr; }
  // For the next request of the same client.
  void Reset() {
    has_left_ = false;
    watcher_ = nullptr;
  }
  // Called when watching begins: ticks are wanted.
  virtual void OnWatch() = 0;

 private:
  void TellGone() {
    signal_.Wake();
    if (watcher_ != nullptr) watcher_->OnGone();
  }

  const Executor executor_;
  work::WakeSignal signal_;
  Watcher* watcher_ = nullptr;
  bool has_left_ = false;
  bool is_cancelled_ = false;
  bool is_to_end_ = false;
};

}  // namespace kvgate::proxy::request
