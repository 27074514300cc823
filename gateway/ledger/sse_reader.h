// SseReader: takes the framing off a stream of server-sent events that is fed in pieces of any
// size. It keeps no text: pieces of data lines go on as they are. LF, CR LF and CR end a line; a
// byte order mark, comments and all fields but "data" are passed over. Not thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvgate::ledger {

class SseSink {
 public:
  virtual ~SseSink() = default;
  // A piece of the event's data; lines of one event come joined by a line feed.
  virtual void OnData(std::string_view piece) = 0;
  // The event is whole. Not called for one without data, nor for one that was cut.
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
  uint8_t matched_ = 0;  // bytes of "data"
  uint8_t mark_ = 0;     // bytes of the byte order mark; 3: it can come no more
  bool after_cr_ = false;
  bool has_data_ = false;
};

}  // namespace kvgate::ledger
