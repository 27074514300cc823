// SseReader removes the framing of server-sent events from a stream that is fed in pieces of any
// size. It keeps no text: pieces of data lines are passed on as they are. LF, CR LF and CR end a
// line. A byte order mark, comments and all fields except "data" are skipped. Not thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvgate::dialect::reply {

class SseSink {
 public:
  virtual ~SseSink() = default;
  // Gets a piece of the event's data; the lines of one event are joined by a line feed.
  virtual void OnData(std::string_view piece) = 0;
  // Called when an event is complete, but not for one without data or one that was cut off.
  virtual void OnEventEnd() = 0;
};

class SseReader {
 public:
  explicit SseReader(SseSink& sink) : sink_(sink) {}
  void Feed(std::string_view bytes);

 private:
  enum class State : uint8_t { kLineStart, kField, kAfterColon, kData, kOther };
  const char* LineStart(const char* at);
  void Begin();

  SseSink& sink_;
  State state_ = State::kLineStart;
  uint8_t matched_ = 0;  // matched bytes of "data"
  uint8_t mark_ = 0;     // matched bytes of the byte order mark; 3: it can no longer come
  bool after_cr_ = false;
  bool has_data_ = false;
};

}  // namespace kvgate::dialect::reply
