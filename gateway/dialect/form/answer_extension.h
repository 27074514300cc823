// AnswerExtension adds one member to an answer that is passed on, in its one JSON object or in the
// object of its last event, and changes no other byte. It holds back the bytes that may turn out to
// be the last: the latest event of a stream, or the closing brace of a body.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace kvgate::dialect::form {

class AnswerExtension {
 public:
  // `events` says that the body is an event stream.
  explicit AnswerExtension(bool events) : events_(events) {}

  // Returns the bytes that can be passed on now, possibly none.
  std::string Feed(std::string_view piece);
  // Returns the rest, with `"name":value` added if it has an object. `value` is JSON; if it is
  // empty, no member is added.
  std::string Finish(std::string_view name, std::string_view value);

 private:
  const bool events_;
  // In a body: everything from the last closing brace on. In a stream: the last event whose data is
  // an object and what follows it, which may be the beginning of the next event.
  std::string held_;
  size_t open_ = 0;       // offset in held_ of the event that has not ended yet
  bool is_empty_ = true;  // in a body: only the opening brace precedes held_
};

}  // namespace kvgate::dialect::form
