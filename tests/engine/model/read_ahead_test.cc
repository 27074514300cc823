#include "engine/modelfile/read_ahead.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/sdk/leaf/mapped_pages.h"

namespace kvgate::model {
namespace {

TEST(ReadAheadTest, EveryRunComesIntoThePageCacheAndNothingIsHeld) {
  const size_t page = MappedPages::page_bytes();
  const MappedPages file(std::vector<std::byte>(3000 * page, std::byte{1}));  // over 8 MiB
  if (!file.ForgetFile()) GTEST_SKIP() << "a file system without a disk";
  {
    const ReadAhead ahead({file.bytes().first(2500 * page), {}, file.bytes().last(page)});
    for (int i = 0; i < 1000 && file.NumCached() < 2501; ++i) usleep(10'000);
  }
  EXPECT_GE(file.NumCached(), 2501u);
  EXPECT_EQ(file.NumHeld(), 0u);
}

}  // namespace
}  // namespace kvgate::model
