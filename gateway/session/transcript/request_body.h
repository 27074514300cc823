// RequestBody: what a session needs to know of a request's body, and the body that goes on in its
// place with the session's messages in it. All else of the body stays as its caller wrote it.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/transcript/message.h"

namespace kvgate::session::transcript {

// What stands in front of the first turn. Members are JSON as their caller wrote them; an empty one
// is missing from the body.
struct Frame {
  std::string system = {};         // "system" or "instructions"
  std::string tools = {};          // the list
  std::vector<Message> head = {};  // messages of the system, in dialects that have them in the list
  friend bool operator==(const Frame&, const Frame&) = default;
};

struct RequestBody {
  Dialect dialect = Dialect::kChatCompletions;
  std::string model = {};
  Frame frame = {};
  std::vector<Message> messages = {};  // without those of frame.head
  int64_t output_tokens = 0;           // the limit on its answer; 0: it sets none
  size_t other_bytes = 0;              // of the body without its messages

  // True if the list holds what a model said.
  bool is_transcript() const;
};

// Reads a body. Fails with kInvalidArgument for what a session cannot keep: several answers
// (`n`), and history that is kept elsewhere (`previous_response_id`, `conversation`).
Result<RequestBody> ReadBody(Dialect dialect, std::string_view body);

struct BodyParts {
  const Frame& frame;  // of which the body gets what it has not itself, where it says null or last
  std::span<const Message> messages;
};
// A member of a body; an empty value removes it.
struct Member {
  std::string_view name = {};
  std::string value = {};  // JSON
};
// Returns the body with these members instead of its own, in their places or behind the others.
// REQUIRES: the body is an object.
std::string WithMembers(std::string_view body, std::span<const Member> members);

// What a body says besides its messages and its frame, as a body: its list has one message that
// says nothing, and its system and tools are null. WriteBody makes the whole of it again, byte for
// byte. Empty if it is larger than 64 KiB. REQUIRES: ReadBody has read it.
std::string SkeletonOf(Dialect dialect, std::string_view body);

// Returns the body with these messages behind the frame's. REQUIRES: ReadBody has read it.
std::string WriteBody(Dialect dialect, std::string_view body, const BodyParts& parts);

}  // namespace kvgate::session::transcript
