// ChatReader: the events of an answer of /v1/chat/completions, from the bytes of its body: as
// server-sent events, or whole where a provider answers so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/src/transport/failure.h"

namespace kvgate::sdk {

struct ChatEvent {
  kvgate_event_kind kind = KVGATE_EVENT_TEXT;
  int choice = 0;
  std::string text = {};
  int tool_index = 0;
  std::string tool_id = {};
  std::string tool_name = {};
  int64_t prompt_tokens = -1;
  int64_t cached_tokens = -1;
  int64_t cache_write_tokens = -1;
  int64_t output_tokens = -1;
  int64_t reasoning_tokens = -1;
};

class ChatReader {
 public:
  ChatReader();
  ~ChatReader();

  // Reads more of a body of server-sent events. A failure is what the answer says of itself, or
  // that it cannot be understood; the events before it remain.
  std::optional<transport::Failure> Push(std::string_view bytes);
  // The body has ended; a failure if it is not complete.
  std::optional<transport::Failure> End();
  // Reads a whole answer.
  std::optional<transport::Failure> ReadWhole(std::string_view body);

  // The next event; nullopt if there is none yet.
  std::optional<ChatEvent> Next();
  bool has_event() const { return !events_.empty(); }

 private:
  struct Parser;  // of JSON
  // A call that has begun, until the answer's end.
  struct Call {
    int choice = 0;
    int index = 0;
    std::string id = {};
    std::string name = {};
    std::string arguments = {};
  };

  std::optional<transport::Failure> ReadLine(std::string_view line);
  std::optional<transport::Failure> ReadChunk(std::string_view json);
  Call& CallOf(int choice, int index);
  void EndCalls(int choice);
  void Finish(int choice, std::string_view reason);

  std::unique_ptr<Parser> parser_;
  std::string line_;  // has begun
  bool is_done_ = false;
  std::vector<Call> calls_;
  std::deque<ChatEvent> events_;
};

}  // namespace kvgate::sdk
