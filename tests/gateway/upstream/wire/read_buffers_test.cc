#include "gateway/upstream/wire/read_buffers.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace kvgate::upstream::wire {
namespace {

boost::beast::flat_buffer Used(size_t bytes) {
  boost::beast::flat_buffer buffer;
  buffer.prepare(bytes);
  buffer.commit(bytes / 2);
  return buffer;
}

TEST(ReadBuffersTest, MemoryComesBackEmpty) {
  boost::beast::flat_buffer first = Used(16 * 1024);
  const void* const memory = first.data().data();
  ReturnReadBuffer(std::move(first));
  boost::beast::flat_buffer again = TakeReadBuffer();
  EXPECT_EQ(again.size(), 0U);
  EXPECT_EQ(again.prepare(16 * 1024).data(), memory);
}

TEST(ReadBuffersTest, WhatIsLargeOrTooMuchIsLetGo) {
  while (TakeReadBuffer().capacity() > 0) {
  }
  ReturnReadBuffer(Used(100 * 1024));
  EXPECT_EQ(TakeReadBuffer().capacity(), 0U);
  for (int i = 0; i < 100; ++i) ReturnReadBuffer(Used(1024));
  int num_kept = 0;
  while (TakeReadBuffer().capacity() > 0) ++num_kept;
  EXPECT_EQ(num_kept, 64);
}

}  // namespace
}  // namespace kvgate::upstream::wire
