#include "gateway/dialect/form/answer_extension.h"

#include <algorithm>

namespace kvgate::dialect::form {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

// Returns the end of the event that begins at `begin`, with its empty line; npos if it is
// incomplete.
size_t EventEnd(std::string_view text, size_t begin) {
  for (size_t line = begin; line < text.size();) {
    const size_t end = text.find('\n', line);
    if (end == std::string_view::npos) break;
    const std::string_view content = text.substr(line, end - line);
    if (content.empty() || content == "\r") return end + 1;
    line = end + 1;
  }
  return std::string_view::npos;
}

// Returns true if the event's data is a JSON object.
bool HasObject(std::string_view event) {
  constexpr std::string_view kData = "data:";
  for (size_t line = 0; line < event.size(); line = event.find('\n', line) + 1) {
    const std::string_view rest = event.substr(line);
    if (rest.starts_with(kData)) {
      const size_t value = rest.find_first_not_of(kBlank, kData.size());
      return value != std::string_view::npos && rest[value] == '{';
    }
    if (event.find('\n', line) == std::string_view::npos) break;
  }
  return false;
}

// Adds a member behind the others of the object whose closing brace is at `brace`.
void Insert(size_t brace, std::string_view name, std::string_view value, bool is_empty,
            std::string& text) {
  std::string member(is_empty ? "\"" : ",\"");
  member.append(name).append("\":").append(value);
  text.insert(brace, member);
}

}  // namespace

std::string AnswerExtension::Feed(std::string_view piece) {
  held_.append(piece);
  size_t ready = 0;
  if (events_) {
    for (size_t end = EventEnd(held_, open_); end != std::string::npos;
         end = EventEnd(held_, open_)) {
      if (HasObject(std::string_view(held_).substr(open_, end - open_))) ready = open_;
      open_ = end;
    }
    open_ -= ready;
  } else {
    const size_t brace = held_.rfind('}');
    ready = brace == std::string::npos ? held_.size() : brace;
    const std::string_view gone = std::string_view(held_).substr(0, ready);
    const size_t last = gone.find_last_not_of(kBlank);
    if (last != std::string_view::npos) is_empty_ = gone[last] == '{';
  }
  std::string out = held_.substr(0, ready);
  held_.erase(0, ready);
  return out;
}

std::string AnswerExtension::Finish(std::string_view name, std::string_view value) {
  std::string rest = std::move(held_);
  if (value.empty()) return rest;
  if (!events_) {
    if (rest.starts_with('}')) Insert(0, name, value, is_empty_, rest);
    return rest;
  }
  const size_t end = EventEnd(rest, 0);
  const std::string_view event = std::string_view(rest).substr(0, end);
  const size_t brace = HasObject(event) ? event.rfind('}') : std::string_view::npos;
  if (brace != std::string_view::npos) {
    const size_t before = event.substr(0, brace).find_last_not_of(kBlank);
    Insert(brace, name, value, event[before] == '{', rest);
  }
  return rest;
}

}  // namespace kvgate::dialect::form
