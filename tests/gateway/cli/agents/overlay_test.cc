#include "gateway/cli/agents/overlay.h"

#include <gtest/gtest.h>

#include <utility>

namespace kvgate::cli::agents {
namespace {

namespace fs = std::filesystem;

TEST(OverlayTest, IsForThisUserAloneAndGoesWithItsOwner) {
  fs::path path;
  {
    Overlay first = Overlay::Open().value();
    const Overlay overlay(std::move(first));
    path = overlay.path();
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(OverlayTest, AFileIsWrittenOnceAndNobodyElseMayReadIt) {
  Overlay overlay = Overlay::Open().value();
  ASSERT_TRUE(overlay.Write("a", "text"));
  EXPECT_EQ(fs::status(overlay.path() / "a").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(fs::file_size(overlay.path() / "a"), 4u);
  EXPECT_EQ(overlay.Write("a", "again").error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace kvgate::cli::agents
