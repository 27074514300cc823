// Channel: an answer on its way from the loop of its request to the thread that reads it. It is
// bounded: a request waits while its reader has more than enough. The first of End and Fail counts;
// what came before it can still be read.
//
// Thread-safe: one side writes, one side reads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "sdk/src/transport/failure.h"

namespace kvgate::sdk::transport {

struct AnswerStart {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers = {};
  // The value of the first header of that name, in any case; null if there is none.
  const std::string* Header(std::string_view name) const;
};

class Channel {
 public:
  // With more than this unread, a request waits.
  static constexpr size_t kUnreadBytesMax = size_t{256} << 10;

  // ---- The request's side.
  // Called on the reader's thread or any other: there is room again; nobody wants the answer. They
  // must not own the channel, nor call it. To be set before the first of the functions below; once
  // others are set, those before are neither called nor running, so that what they stand on may go.
  void OnReader(std::function<void()> on_room, std::function<void()> on_cancel);
  void Begin(AnswerStart start);
  void Push(std::string_view piece);
  bool has_room() const;
  void End();
  void Fail(Failure failure);

  // ---- The reader's side.
  enum class State {
    kNothing,  // yet
    kBytes,
    kEnd,
    kFailed,
  };
  // What Take or failure() would give now; Wait waits for anything but kNothing.
  State Poll() const;
  State Wait() const;
  // Takes the bytes that have come, by adding them to `into`.
  void Take(std::string& into);
  // Valid from the first state other than kNothing on; status 0: it failed before it began.
  const AnswerStart& start() const { return start_; }
  const Failure& failure() const { return failure_; }
  // Nobody wants the rest; the reader gets this failure, if there is no other.
  void Cancel(Failure why);
  // Calls `ready` once, as soon as Poll is not kNothing; replaces the one before. Null: none is
  // called any more, and none is running when it returns, unless it is called within one.
  void OnReady(std::function<void()> ready);

 private:
  State StateNow() const;  // under mutex_
  void Notify(std::unique_lock<std::mutex> lock);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::condition_variable idle_;  // no `ready` runs
  std::function<void()> on_room_;
  std::function<void()> on_cancel_;
  std::function<void()> ready_;
  std::thread::id ready_runs_on_;
  AnswerStart start_;
  std::string unread_;
  bool is_begun_ = false;
  bool is_ended_ = false;
  bool is_failed_ = false;
  Failure failure_;
};

}  // namespace kvgate::sdk::transport
