#include <gtest/gtest.h>

#include <cstdlib>

#include "gateway/config/config.h"

namespace kvgate::config {
namespace {

TEST(ParseBytesTest, KnowsBinaryAndDecimalUnits) {
  EXPECT_EQ(*ParseBytes("0"), 0u);
  EXPECT_EQ(*ParseBytes("4096"), 4096u);
  EXPECT_EQ(*ParseBytes("1GiB"), uint64_t{1} << 30);
  EXPECT_EQ(*ParseBytes("3 MiB"), uint64_t{3} << 20);
  EXPECT_EQ(*ParseBytes("2GB"), 2'000'000'000u);
  for (const char* bad : {"", "GiB", "-1", "1.5GiB", "1gib", "1 GiB x", "99999999999999TiB"}) {
    EXPECT_FALSE(ParseBytes(bad)) << bad;
  }
}

TEST(ParseHostPortTest, TakesNamesAndBothAddressFamilies) {
  EXPECT_EQ(ParseHostPort("127.0.0.1:8080")->port, 8080);
  EXPECT_EQ(ParseHostPort("[::1]:0")->host, "::1");
  EXPECT_TRUE(ParseHostPort("localhost:1")->is_loopback());
  EXPECT_FALSE(ParseHostPort("0.0.0.0:1")->is_loopback());
  for (const char* bad : {"", "8080", ":8080", "a:", "a:70000", "a:-1", "::1:80"}) {
    EXPECT_FALSE(ParseHostPort(bad)) << bad;
  }
}

TEST(DefaultDataDirTest, FollowsTheEnvironment) {
  ::setenv("XDG_DATA_HOME", "/x", 1);
  EXPECT_EQ(DefaultDataDir(), "/x/kvgate");
  ::unsetenv("XDG_DATA_HOME");
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(DefaultDataDir(), "/h/.local/share/kvgate");
}

}  // namespace
}  // namespace kvgate::config
