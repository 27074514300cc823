#include "store/file/start_marker.h"

#include <gtest/gtest.h>

#include "tests/store/store_fixture.h"

namespace kvgate::store::file {
namespace {

TEST(StartMarker, CountsCrashesUntilAProcessHasSettled) {
  const TempFolder directory;
  const auto path = directory.path() / "kv.opening";
  const auto copy = directory.path() / "as a crash leaves it";
  {
    StartMarker marker(path);
    EXPECT_EQ(marker.num_crashes(), 0u);
    StartMarker::NoteCrash();  // the start has not begun, so this does not count
    marker.Begin();
    StartMarker::NoteCrash();
    StartMarker::NoteCrash();
    std::filesystem::copy(path, copy);
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "a clean end";
  EXPECT_EQ(StartMarker(copy).num_crashes(), 2u);
  StartMarker again(copy);
  again.Begin();
  again.Settle();
  StartMarker::NoteCrash();
  EXPECT_EQ(StartMarker(copy).num_crashes(), 0u);
}

TEST(StartMarker, AProcessThatIsKilledLeavesNoCrash) {
  const TempFolder directory;
  const auto path = directory.path() / "kv.opening";
  std::ofstream(path).close();  // the start has begun and not ended
  EXPECT_EQ(StartMarker(path).num_crashes(), 0u);
}

}  // namespace
}  // namespace kvgate::store::file
