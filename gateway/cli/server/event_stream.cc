#include "gateway/cli/server/event_stream.h"

#include <utility>

namespace kvgate::cli::server {

// Our servers end lines with a line feed; a carriage return in front of it belongs to the end, too.
void EventStream::Push(std::string_view piece, const OnEvent& on_event) {
  while (!piece.empty()) {
    const size_t end = piece.find('\n');
    const std::string_view part = piece.substr(0, end);
    if (pending_.size() + part.size() > kEventBytesMax) {
      is_too_long_ = is_line_too_long_ = true;
      pending_.clear();
    } else if (!is_line_too_long_) {
      pending_ += part;
    }
    if (end == std::string_view::npos) return;
    piece.remove_prefix(end + 1);
    if (std::exchange(is_line_too_long_, false)) continue;
    if (pending_.ends_with('\r')) pending_.pop_back();
    Line(std::exchange(pending_, {}), on_event);
  }
}

void EventStream::Line(std::string_view line, const OnEvent& on_event) {
  if (line.empty()) {
    if (has_data_ && !is_too_long_) on_event(name_.empty() ? "message" : name_, data_);
    name_.clear();
    data_.clear();
    has_data_ = is_too_long_ = false;
    return;
  }
  const size_t colon = line.find(':');
  if (colon == 0) return;  // a comment
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "event") {
    name_ = value;
  } else if (field == "data") {
    if (data_.size() + value.size() > kEventBytesMax) {
      is_too_long_ = true;
      return;
    }
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
}

}  // namespace kvgate::cli::server
