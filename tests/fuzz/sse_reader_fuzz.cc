// Fuzzes the reader of server-sent events: pieces of any size give the same events as a naive
// reader that has the whole text.
#include "gateway/dialect/reply/sse_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace {

using Events = std::vector<std::string>;

class Collector final : public kvgate::dialect::reply::SseSink {
 public:
  void OnData(std::string_view piece) override { data_ += piece; }
  void OnEventEnd() override { events.push_back(std::exchange(data_, {})); }
  Events events;

 private:
  std::string data_;
};

Events ReadPieces(std::string_view text, size_t piece_bytes) {
  Collector collector;
  kvgate::dialect::reply::SseReader reader(collector);
  while (!text.empty()) {
    reader.Feed(text.substr(0, piece_bytes));
    text.remove_prefix(std::min(piece_bytes, text.size()));
  }
  return collector.events;
}

// Reads line by line, following the wording of the standard.
Events ReadWhole(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  Events events;
  std::string data;
  bool has_data = false;
  while (true) {
    const size_t end = text.find_first_of("\r\n");
    if (end == std::string_view::npos) return events;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(text.substr(end).starts_with("\r\n") ? end + 2 : end + 1);
    if (line.empty()) {
      if (has_data) events.push_back(data);
      data.clear();
      has_data = false;
      continue;
    }
    std::string_view value;
    if (line.substr(0, line.find(':')) != "data") continue;
    if (line.size() > 4) value = line.substr(5);
    if (value.starts_with(" ")) value.remove_prefix(1);
    if (std::exchange(has_data, true)) data += '\n';
    data += value;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  // Texts that begin with a part of a byte order mark do not occur.
  if (text.starts_with("\xef") && !text.starts_with("\xef\xbb\xbf")) return 0;
  const Events expected = ReadWhole(text);
  if (ReadPieces(text, 1 + data[0] % 16) != expected) std::abort();
  if (ReadPieces(text, text.size() + 1) != expected) std::abort();
  return 0;
}
