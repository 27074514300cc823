#include "engine/sample/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace kvgate::sample {

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    if (text.empty()) continue;
    std::vector<uint32_t> failure(text.size(), 0);
    for (size_t i = 1; i < text.size(); ++i) {
      uint32_t length = failure[i - 1];
      while (length > 0 && text[i] != text[length]) length = failure[length - 1];
      failure[i] = text[i] == text[length] ? length + 1 : 0;
    }
    stops_.push_back({.text = std::move(text), .failure = std::move(failure)});
  }
}

const StopMatcher::Stop* StopMatcher::Advance(char byte) {
  const Stop* completed = nullptr;
  for (Stop& stop : stops_) {
    while (stop.num_matched > 0 && stop.text[stop.num_matched] != byte) {
      stop.num_matched = stop.failure[stop.num_matched - 1];
    }
    if (stop.text[stop.num_matched] == byte) ++stop.num_matched;
    if (stop.num_matched < stop.text.size()) continue;
    if (completed == nullptr || stop.text.size() > completed->text.size()) completed = &stop;
  }
  return completed;
}

StopMatcher::Output StopMatcher::Push(std::string_view text) {
  if (is_stopped_) return {.text = {}, .stopped = true, .matched = matched_};
  if (stops_.empty()) return {.text = std::string(text), .stopped = false, .matched = {}};
  for (size_t i = 0; i < text.size(); ++i) {
    const Stop* completed = Advance(text[i]);
    if (completed == nullptr) continue;
    held_.append(text.substr(0, i + 1));
    is_stopped_ = true;
    matched_ = completed->text;
    const size_t end = held_.size() - matched_.size();
    Output output = {
        .text = held_.substr(held_begin_, end - held_begin_), .stopped = true, .matched = matched_};
    held_.clear();
    held_begin_ = 0;
    return output;
  }
  held_.append(text);
  size_t num_held = 0;
  for (const Stop& stop : stops_) num_held = std::max<size_t>(num_held, stop.num_matched);
  const size_t end = held_.size() - num_held;
  Output output = {
      .text = held_.substr(held_begin_, end - held_begin_), .stopped = false, .matched = {}};
  held_begin_ = end;
  if (held_begin_ * 2 > held_.size()) {
    held_.erase(0, held_begin_);
    held_begin_ = 0;
  }
  return output;
}

std::string StopMatcher::Finish() {
  std::string rest = held_.substr(held_begin_);
  held_.clear();
  held_begin_ = 0;
  for (Stop& stop : stops_) stop.num_matched = 0;
  return rest;
}

}  // namespace kvgate::sample
