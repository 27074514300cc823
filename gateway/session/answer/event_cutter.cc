#include "gateway/session/answer/event_cutter.h"

#include <algorithm>
#include <utility>

#include "gateway/dialect/reply/sse_reader.h"

namespace kvgate::session::answer {
namespace {

// Returns the size of the first event with the empty line behind it; 0 if that has not come. A CR
// at the very end may be half of a line break.
size_t EventSize(std::string_view text, size_t from) {
  const auto break_at = [&](size_t at) -> size_t {
    if (at >= text.size()) return 0;
    if (text[at] == '\n') return 1;
    if (text[at] != '\r' || at + 1 == text.size()) return 0;
    return text[at + 1] == '\n' ? 2 : 1;
  };
  for (size_t at = from; at < text.size(); ++at) {
    const size_t first = break_at(at);
    if (first == 0) continue;
    const size_t second = break_at(at + first);
    if (second > 0) return at + first + second;
    at += first - 1;
  }
  return 0;
}

class DataSink final : public dialect::reply::SseSink {
 public:
  std::string data;

 private:
  void OnData(std::string_view piece) override { data += piece; }
  void OnEventEnd() override {}
};

}  // namespace

std::optional<std::string> EventCutter::Next() {
  const std::string_view rest = std::string_view(pending_).substr(begin_);
  if (const size_t size = EventSize(rest, scanned_); size > 0) {
    begin_ += size;
    scanned_ = 0;
    return std::string(rest.substr(0, size));
  }
  // A line break at the end may be the first of two.
  scanned_ = rest.size() - std::min<size_t>(rest.size(), 3);
  pending_.erase(0, begin_);
  begin_ = 0;
  return std::nullopt;
}

std::string EventCutter::TakeRest() {
  std::string rest = std::exchange(pending_, {});
  rest.erase(0, std::exchange(begin_, 0));
  scanned_ = 0;
  return rest;
}

std::string DataOf(std::string_view event) {
  DataSink sink;
  dialect::reply::SseReader reader(sink);
  reader.Feed(event);
  reader.Feed("\n\n");
  return std::move(sink.data);
}

}  // namespace kvgate::session::answer
