#include "gateway/session/answer/event_cutter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvgate::session::answer {
namespace {

std::vector<std::string> Cut(std::string_view stream, size_t piece, std::string* rest = nullptr) {
  EventCutter cutter;
  std::vector<std::string> events;
  for (size_t at = 0; at < stream.size(); at += piece) {
    cutter.Add(stream.substr(at, piece));
    while (const auto event = cutter.Next()) events.push_back(*event);
  }
  EXPECT_LE(cutter.num_pending(), stream.size());
  const std::string left = cutter.TakeRest();
  EXPECT_EQ(cutter.num_pending(), 0u);
  if (rest != nullptr) *rest = left;
  return events;
}

TEST(EventCutterTest, EventsAreWholeWhateverThePieces) {
  const std::vector<std::string> events = {"event: a\ndata: 1\n\n", ": ping\r\n\r\n",
                                           "data: 2\rdata: 3\r\r", "data: 4\n\n"};
  std::string stream;
  for (const std::string& event : events) stream += event;
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    std::string rest;
    EXPECT_EQ(Cut(stream + "data: 5", piece, &rest), events) << piece;
    EXPECT_EQ(rest, "data: 5");
  }
}

TEST(EventCutterTest, DataIsJoinedAndAllElseLeftOut) {
  EXPECT_EQ(DataOf("event: a\nid: 7\ndata: {\"a\":\ndata: 1}\n\n"), "{\"a\":\n1}");
  EXPECT_EQ(DataOf("data: 4"), "4");
  EXPECT_EQ(DataOf(": ping\n\n"), "");
  EXPECT_EQ(DataOf(""), "");
}

}  // namespace
}  // namespace kvgate::session::answer
