#include "gateway/session/compaction/cleared_marks.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::session::compaction {
namespace {

TEST(ClearedMarksTest, ATenantsNewestMarksAreKept) {
  ClearedMarks marks;
  marks.Add("bob", 1);
  for (uint64_t mark = 1; mark <= 300; ++mark) {
    marks.Add("alice", mark);
    EXPECT_TRUE(marks.Has("alice", 1)) << "it is used";
  }
  EXPECT_FALSE(marks.Has("alice", 2));
  EXPECT_TRUE(marks.Has("alice", 300));
  EXPECT_TRUE(marks.Has("bob", 1)) << "another's marks are not in the way";
  EXPECT_FALSE(marks.Has("bob", 300));
}

TEST(ClearedMarksTest, WhoOnlyLooksTakesNoPlace) {
  ClearedMarks marks;
  marks.Add("alice", 1);
  for (int i = 0; i < 5000; ++i) EXPECT_FALSE(marks.Has("t" + std::to_string(i), 1));
  EXPECT_TRUE(marks.Has("alice", 1));
}

}  // namespace
}  // namespace kvgate::session::compaction
