#include "sdk/src/transport/channel.h"

#include <algorithm>

#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::sdk::transport {

const std::string* AnswerStart::Header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(), [name](const auto& header) {
    return upstream::wire::SameName(header.first, name);
  });
  return found == headers.end() ? nullptr : &found->second;
}

void Channel::OnReader(std::function<void()> on_room, std::function<void()> on_cancel) {
  const std::lock_guard lock(mutex_);
  on_room_ = std::move(on_room);
  on_cancel_ = std::move(on_cancel);
}

void Channel::Begin(AnswerStart start) {
  const std::lock_guard lock(mutex_);
  if (is_ended_ || is_failed_ || is_begun_) return;
  start_ = std::move(start);
  is_begun_ = true;
}

void Channel::Push(std::string_view piece) {
  std::unique_lock lock(mutex_);
  if (is_ended_ || is_failed_ || piece.empty()) return;
  unread_ += piece;
  Notify(std::move(lock));
}

bool Channel::has_room() const {
  const std::lock_guard lock(mutex_);
  return unread_.size() < kUnreadBytesMax;
}

void Channel::End() {
  std::unique_lock lock(mutex_);
  if (is_ended_ || is_failed_) return;
  is_ended_ = true;
  Notify(std::move(lock));
}

void Channel::Fail(Failure failure) {
  std::unique_lock lock(mutex_);
  if (is_ended_ || is_failed_) return;
  is_failed_ = true;
  failure_ = std::move(failure);
  Notify(std::move(lock));
}

Channel::State Channel::StateNow() const {
  if (!unread_.empty()) return State::kBytes;
  if (is_failed_) return State::kFailed;
  return is_ended_ ? State::kEnd : State::kNothing;
}

Channel::State Channel::Poll() const {
  const std::lock_guard lock(mutex_);
  return StateNow();
}

Channel::State Channel::Wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return StateNow() != State::kNothing; });
  return StateNow();
}

void Channel::Take(std::string& into) {
  const std::lock_guard lock(mutex_);
  const bool had_room = unread_.size() < kUnreadBytesMax;
  if (into.empty()) {
    into.swap(unread_);
  } else {
    into += unread_;
  }
  unread_.clear();
  if (!had_room && on_room_) on_room_();
}

void Channel::Cancel(Failure why) {
  Fail(std::move(why));
  const std::lock_guard lock(mutex_);
  if (on_cancel_) on_cancel_();
}

void Channel::OnReady(std::function<void()> ready) {
  std::unique_lock lock(mutex_);
  ready_ = std::move(ready);
  if (ready_ != nullptr && StateNow() != State::kNothing) {
    Notify(std::move(lock));
    return;
  }
  if (ready_ != nullptr) return;
  const std::thread::id here = std::this_thread::get_id();
  idle_.wait(lock, [&] { return ready_runs_on_ == std::thread::id() || ready_runs_on_ == here; });
}

// A reader that is told goes on at once, so nothing of the channel is used after that but its end.
void Channel::Notify(std::unique_lock<std::mutex> lock) {
  changed_.notify_all();
  if (ready_ == nullptr) return;
  const std::function<void()> ready = std::exchange(ready_, nullptr);
  const std::thread::id before = std::exchange(ready_runs_on_, std::this_thread::get_id());
  lock.unlock();
  ready();
  lock.lock();
  ready_runs_on_ = before;
  idle_.notify_all();
}

}  // namespace kvgate::sdk::transport
