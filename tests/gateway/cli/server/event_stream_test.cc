#include "gateway/cli/server/event_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace kvgate::cli::server {
namespace {

// What comes out of the bytes in pieces of `size`.
std::string Events(std::string_view bytes, size_t size) {
  std::string events;
  const auto keep = [&](std::string_view name, std::string_view data) {
    events.append(name).append("=").append(data).append(";");
  };
  EventStream stream;
  for (size_t at = 0; at < bytes.size(); at += size) stream.Push(bytes.substr(at, size), keep);
  return events;
}

TEST(EventStreamTest, EventsComeOutHoweverTheirBytesArrive) {
  constexpr std::string_view kBytes =
      ": hello\n\nevent: request\ndata: {\"a\":1}\n\ndata:x\r\ndata: y\r\n\r\n"
      "event: nothing\n\nid: 7\ndata\n\n";
  for (const size_t size : {size_t{1}, size_t{2}, size_t{7}, kBytes.size()}) {
    EXPECT_EQ(Events(kBytes, size), "request={\"a\":1};message=x\ny;message=;") << size;
  }
}

TEST(EventStreamTest, WhatIsCutOffIsNoEvent) {
  EXPECT_EQ(Events("data: a\n\ndata: b\n", 5), "message=a;");
}

TEST(EventStreamTest, AnEventThatIsTooLongIsLeftOutAndTheNextOneIsNot) {
  const std::string much(EventStream::kEventBytesMax, 'x');
  EXPECT_EQ(Events("data: " + much + "\n\ndata: b\n\n", 100'000), "message=b;");
  EXPECT_EQ(Events("data: " + much + "\n\ndata: b\n\n", much.size()), "message=b;");
  const std::string half = "data: " + much.substr(0, much.size() / 2) + "\n";
  EXPECT_EQ(Events(half + half + "data: c\n\ndata: b\n\n", 4096), "message=b;");
}

}  // namespace
}  // namespace kvgate::cli::server
