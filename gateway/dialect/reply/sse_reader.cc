#include "gateway/dialect/reply/sse_reader.h"

#include <algorithm>

namespace kvgate::dialect::reply {
namespace {

constexpr std::string_view kMark = "\xef\xbb\xbf";
constexpr std::string_view kData = "data";

const char* FindLineEnd(const char* at, const char* end) {
  return std::find_if(at, end, [](char c) { return c == '\n' || c == '\r'; });
}

}  // namespace

void SseReader::Feed(std::string_view bytes) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (at != end) {
    if (state_ == State::kLineStart) {
      at = LineStart(at);
      continue;
    }
    if (state_ == State::kField) {
      const char c = *at;
      const bool at_end = matched_ == kData.size();
      if (at_end && c == ':') {
        state_ = State::kAfterColon;
        ++at;
      } else if (c == '\n' || c == '\r') {
        if (at_end) Begin();  // "data" without a colon is an empty data line
        state_ = State::kOther;
      } else if (!at_end && c == kData[matched_]) {
        ++matched_;
        ++at;
      } else {
        state_ = State::kOther;
      }
      continue;
    }
    if (state_ == State::kAfterColon) {
      Begin();
      state_ = State::kData;
      if (*at == ' ') ++at;
      continue;
    }
    const char* const line_end = FindLineEnd(at, end);
    if (state_ == State::kData && line_end != at) {
      sink_.OnData({at, static_cast<size_t>(line_end - at)});
    }
    at = line_end;
    if (at == end) return;
    after_cr_ = *at++ == '\r';
    state_ = State::kLineStart;
    matched_ = 0;
  }
}

// Handles the first byte of a line, and consumes it only if it belongs to no field.
const char* SseReader::LineStart(const char* at) {
  const char c = *at;
  if (c == '\n' && after_cr_) {
    after_cr_ = false;
    return at + 1;
  }
  after_cr_ = false;
  if (mark_ < kMark.size() && c == kMark[mark_]) {
    ++mark_;
    return at + 1;
  }
  mark_ = static_cast<uint8_t>(kMark.size());
  if (c != '\n' && c != '\r') {
    state_ = State::kField;
    return at;
  }
  if (has_data_) sink_.OnEventEnd();
  has_data_ = false;
  after_cr_ = c == '\r';
  return at + 1;
}

// Begins a data line; a line feed separates it from an earlier one of the same event.
void SseReader::Begin() {
  if (has_data_) sink_.OnData("\n");
  has_data_ = true;
}

}  // namespace kvgate::dialect::reply
