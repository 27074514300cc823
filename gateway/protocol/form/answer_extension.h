// AnswerExtension: adds a member to an answer that is passed on, to its one JSON object or to the
// object of its last event, and changes nothing else of its bytes. What may be the last is held
// back until it is known: of events the last one, of a body its closing brace.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace kvgate::protocol {

class AnswerExtension {
 public:
  // `events`: the body is a stream of events.
  explicit AnswerExtension(bool events) : events_(events) {}

  // What can go on now; may be empty.
  std::string Feed(std::string_view piece);
  // The rest, with `"name":value` in its object where there is one. `value`: JSON; empty: nothing
  // is added.
  std::string Finish(std::string_view name, std::string_view value);

 private:
  const bool events_;
  // Of a body: from the last closing brace on. Of events: the last one with an object as its data
  // and what follows it, which may be the beginning of the next.
  std::string held_;
  size_t open_ = 0;       // of held_: where the event begins that has not ended yet
  bool is_empty_ = true;  // of a body: nothing but the opening brace has gone before held_
};

}  // namespace kvgate::protocol
