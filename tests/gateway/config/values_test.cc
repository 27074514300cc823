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

TEST(ParseSecondsTest, KnowsFourUnitsAndNeedsOne) {
  EXPECT_EQ(*ParseSeconds("45s"), 45);
  EXPECT_EQ(*ParseSeconds("90m"), 5400);
  EXPECT_EQ(*ParseSeconds("12h"), 43'200);
  EXPECT_EQ(*ParseSeconds("30d"), 2'592'000);
  for (const char* bad :
       {"", "d", "30", "-1d", "1.5h", "1 d", "1D", "1dd", "999999999999999999d"}) {
    EXPECT_FALSE(ParseSeconds(bad)) << bad;
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

TEST(ParseUrlTest, TakesSchemeHostPortAndPath) {
  const auto url = ParseUrl("https://api.example.com/v1/");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->host, "api.example.com");
  EXPECT_EQ(url->port, 443);
  EXPECT_EQ(url->path, "/v1");
  EXPECT_EQ(ParseUrl("http://[::1]:9100")->host, "::1");
  EXPECT_EQ(ParseUrl("http://[::1]:9100")->port, 9100);
  EXPECT_EQ(ParseUrl("http://[::1]")->port, 80);
  EXPECT_EQ(ParseUrl("http://h/")->path, "");
  for (const char* bad : {"", "h", "ftp://h", "http://", "http://u@h", "http://h?x", "http://h:0",
                          "http://h:x", "http://h/a b", "http://h/\r\nX: y", "https://::1"}) {
    EXPECT_FALSE(ParseUrl(bad)) << bad;
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
