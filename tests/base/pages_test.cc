#include "base/pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/base/mapped_pages.h"
#include "tests/wait_until.h"

namespace kvgate {
namespace {

constexpr size_t kPages = 64;

class PagesTest : public testing::Test {
 protected:
  static std::vector<std::byte> Ones() {
    return std::vector<std::byte>(kPages * MappedPages::page_bytes(), std::byte{1});
  }
  bool IsOnes() const {
    return std::ranges::all_of(file_.bytes(), [](std::byte byte) { return byte == std::byte{1}; });
  }

  MappedPages file_{Ones()};
};

TEST_F(PagesTest, DroppedPagesAreNoLongerHeldAndComeBackTheSame) {
  EXPECT_TRUE(IsOnes());
  EXPECT_EQ(file_.NumHeld(), kPages);
  const size_t page = MappedPages::page_bytes();
  DropPages(file_.bytes().subspan(page / 2, 8 * page));  // overlaps nine pages
  EXPECT_EQ(file_.NumHeld(), kPages - 9);
  DropPages({});
  EXPECT_EQ(file_.NumHeld(), kPages - 9);
  EXPECT_TRUE(IsOnes());
}

TEST_F(PagesTest, AskedPagesComeFromTheDiskWithoutBeingHeld) {
  if (!file_.ForgetFile()) GTEST_SKIP() << "a file system without a disk";
  AskForPages(file_.bytes());
  EXPECT_EQ(file_.NumHeld(), 0u);
  EXPECT_TRUE(test::WaitUntil([&] { return file_.NumCached() == kPages; }, "the pages are read"));
}

}  // namespace
}  // namespace kvgate
