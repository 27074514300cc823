#include "base/lru_map.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate {
namespace {

TEST(LruMapTest, TheMapForgetsWhatWasNotAskedForLongest) {
  LruMap<int, std::string> map(2);
  map.FindOrAdd(1) = "one";
  map.FindOrAdd(2) = "two";
  EXPECT_EQ(*map.Find(1), "one");
  map.FindOrAdd(3) = "three";
  EXPECT_EQ(map.size(), 2u);
  EXPECT_EQ(map.Peek(2), nullptr);
  EXPECT_EQ(map.Find(2), nullptr);
  EXPECT_EQ(*map.Peek(1), "one");
}

TEST(LruMapTest, PeekingDoesNotKeepAnEntry) {
  LruMap<int, int> map(2);
  map.FindOrAdd(1) = 1;
  map.FindOrAdd(2) = 2;
  EXPECT_EQ(*map.Peek(1), 1);
  map.FindOrAdd(3) = 3;
  EXPECT_EQ(map.Peek(1), nullptr);
}

TEST(LruMapTest, AnEntryIsAddedOnceAndStaysWhereItIs) {
  LruMap<int, int> map(8);
  int& first = map.FindOrAdd(1);
  first = 7;
  for (int key = 2; key <= 8; ++key) map.FindOrAdd(key) = key;
  EXPECT_EQ(&map.FindOrAdd(1), &first);
  EXPECT_EQ(first, 7);
  EXPECT_EQ(map.size(), 8u);
}

TEST(LruMapTest, AMapForNothingKeepsOneEntry) {
  LruMap<int, int> map(0);
  map.FindOrAdd(1) = 1;
  map.FindOrAdd(2) = 2;
  EXPECT_EQ(map.size(), 1u);
  EXPECT_EQ(*map.Peek(2), 2);
}

}  // namespace
}  // namespace kvgate
