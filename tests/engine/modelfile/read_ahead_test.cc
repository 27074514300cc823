#include "engine/modelfile/read_ahead.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/base/mapped_pages.h"
#include "tests/wait_until.h"

namespace kvgate::modelfile {
namespace {

TEST(ReadAheadTest, EveryRunComesIntoThePageCacheAndNothingIsHeld) {
  const size_t page = MappedPages::page_bytes();
  const MappedPages file(std::vector<std::byte>(3000 * page, std::byte{1}));  // more than 8 MiB
  if (!file.ForgetFile()) GTEST_SKIP() << "a file system without a disk";
  {
    const ReadAhead ahead({file.bytes().first(2500 * page), {}, file.bytes().last(page)});
    EXPECT_TRUE(test::WaitUntil([&] { return file.NumCached() >= 2501; }, "the file is read"));
  }
  EXPECT_EQ(file.NumHeld(), 0u);
}

}  // namespace
}  // namespace kvgate::modelfile
