#include "gateway/dialect/reply/sse_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvgate::dialect::reply {
namespace {

class Collector final : public SseSink {
 public:
  void OnData(std::string_view piece) override { current_ += piece; }
  void OnEventEnd() override { events.push_back(std::exchange(current_, {})); }
  std::vector<std::string> events;

 private:
  std::string current_;
};

std::vector<std::string> Read(std::string_view bytes, size_t piece_bytes) {
  Collector collector;
  SseReader reader(collector);
  for (size_t at = 0; at < bytes.size(); at += piece_bytes) {
    reader.Feed(bytes.substr(at, piece_bytes));
  }
  return collector.events;
}

void ExpectEvents(std::string_view bytes, const std::vector<std::string>& events) {
  for (size_t size = 1; size <= bytes.size(); ++size) {
    ASSERT_EQ(Read(bytes, size), events) << "in pieces of " << size;
  }
}

TEST(SseReaderTest, EventsAreTheirDataWhateverThePieces) {
  ExpectEvents("event: a\ndata: {\"x\": 1}\n\ndata:two\n\n: comment\n\nid: 7\n\ndata: [DONE]\n\n",
               {"{\"x\": 1}", "two", "[DONE]"});
}

TEST(SseReaderTest, EveryLineEndIsOne) {
  ExpectEvents("data: a\r\n\r\ndata: b\r\rdata: c\n\ndata: d\r\ndata: e\r\n\r\n",
               {"a", "b", "c", "d\ne"});
}

TEST(SseReaderTest, LinesOfOneEventAreJoined) {
  ExpectEvents("data: {\ndata:  \"a\": 1\ndata\ndata: }\nevent: x\n\n", {"{\n \"a\": 1\n\n}"});
}

TEST(SseReaderTest, OtherFieldsAreNotData) {
  ExpectEvents("dat: a\n\ndatas: b\n\nxdata: c\n\n:data: d\n\nretry: 1\n\ndata\n\n", {""});
}

TEST(SseReaderTest, AByteOrderMarkIsPassedOver) {
  ExpectEvents(
      "\xef\xbb\xbf"
      "data: a\n\n",
      {"a"});
}

TEST(SseReaderTest, AnEventThatWasCutIsNone) {
  ExpectEvents("data: a\n\ndata: b\n", {"a"});
  ExpectEvents("data: a\n\ndata: b", {"a"});
}

}  // namespace
}  // namespace kvgate::dialect::reply
