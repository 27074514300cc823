// EventStream takes the events out of a stream of server-sent events that arrives in pieces of any
// size. An event that is cut off at the end is dropped. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace kvgate::cli::server {

class EventStream {
 public:
  // An event of more bytes than this is left out.
  static constexpr size_t kEventBytesMax = size_t{4} << 20;

  // Gets the event's name ("message" if it has none) and its data, whose lines are joined by a line
  // feed.
  using OnEvent = std::function<void(std::string_view name, std::string_view data)>;
  void Push(std::string_view piece, const OnEvent& on_event);

 private:
  void Line(std::string_view line, const OnEvent& on_event);

  std::string pending_;  // an unfinished line
  std::string name_;
  std::string data_;
  bool has_data_ = false;
  bool is_too_long_ = false;       // the event
  bool is_line_too_long_ = false;  // the one that is pending
};

}  // namespace kvgate::cli::server
