// EventCutter cuts a stream of server-sent events, which comes in pieces of any size, into whole
// events with the empty line behind each, as they were written. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kvgate::session::answer {

class EventCutter {
 public:
  void Add(std::string_view piece) { pending_ += piece; }
  // Takes the next whole event; nullopt if its end has not come.
  std::optional<std::string> Next();
  // Takes what is left: an event that ended with the stream, or none.
  std::string TakeRest();
  // Bytes of events whose end has not come.
  size_t num_pending() const { return pending_.size() - begin_; }

 private:
  std::string pending_;  // from begin_ on
  size_t begin_ = 0;
  size_t scanned_ = 0;  // bytes behind begin_ that hold no end of an event
};

// The data of an event, its lines joined by a line feed; empty if it has none.
std::string DataOf(std::string_view event);

}  // namespace kvgate::session::answer
