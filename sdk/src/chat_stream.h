// ChatStream: a chat completion as events.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sdk/src/chat_reader.h"
#include "sdk/src/transport/exchange.h"

namespace kvgate::sdk {

// Returns the body of a chat request with streaming and usage asked for. What is no JSON object
// stays as it is, for the server to refuse.
std::string StreamedBody(std::string_view request);

class ChatStream {
 public:
  ChatStream(transport::Transport& transport, transport::Request request,
             const std::shared_ptr<transport::Cancel>& cancel)
      : exchange_(transport, std::move(request), cancel) {}
  ~ChatStream();

  // Returns KVGATE_OK with event() set, KVGATE_END, KVGATE_AGAIN if it may not wait, or a failure.
  kvgate_status Next(bool may_wait);
  const ChatEvent& event() const { return *event_; }
  const transport::Failure& failure() const { return exchange_.failure(); }

  // Calls `ready` once, when Next has something to say without waiting: at once, or on the thread
  // that brings it. Until then nothing else of the stream may be called but this and its end.
  void OnReady(std::function<void()> ready);
  // Null until an event or the end has come.
  const transport::AnswerStart* start() const {
    return has_start_ ? &exchange_.channel().start() : nullptr;
  }

 private:
  // Reads what has come, until there is an event or an outcome; false: there is neither yet.
  bool HasNews();
  void Read(transport::Channel::State state);
  void End();
  void Fail(transport::Failure failure);

  transport::Exchange exchange_;
  ChatReader reader_;
  std::optional<ChatEvent> event_;
  std::optional<transport::Failure> pending_;  // after the events that came before it
  std::string body_;                           // of an answer that is no stream
  bool has_start_ = false;
  std::optional<kvgate_status> outcome_;
};

}  // namespace kvgate::sdk
