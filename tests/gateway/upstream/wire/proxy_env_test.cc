#include "gateway/upstream/wire/proxy_env.h"

#include <gtest/gtest.h>

#include <map>

namespace kvgate::upstream::wire {
namespace {

Environment Of(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? "" : found->second;
  };
}

TEST(FindProxyTest, OnlyTlsUpstreamsGoThroughOne) {
  const Environment set = Of({{"HTTPS_PROXY", "http://user:p%40ss@proxy.example:3128/"}});
  const auto proxy = FindProxy(*config::ParseUrl("https://api.example.com/v1"), set);
  ASSERT_TRUE(proxy && *proxy);
  EXPECT_EQ((*proxy)->host, "proxy.example");
  EXPECT_EQ((*proxy)->port, 3128);
  EXPECT_EQ((*proxy)->authorization, "Basic dXNlcjpwJTQwc3M=");
  EXPECT_FALSE(*FindProxy(*config::ParseUrl("http://api.example.com"), set));
  EXPECT_FALSE(*FindProxy(*config::ParseUrl("https://api.example.com"), Of({})));
}

TEST(FindProxyTest, TheLowerCaseVariableWinsAndABadOneIsNotShown) {
  const config::Url url = *config::ParseUrl("https://h");
  const auto proxy =
      FindProxy(url, Of({{"https_proxy", "a.example:1"}, {"HTTPS_PROXY", "http://b.example:2"}}));
  ASSERT_TRUE(proxy && *proxy);
  EXPECT_EQ((*proxy)->host, "a.example");
  const auto bad = FindProxy(url, Of({{"HTTPS_PROXY", "https://secret@x"}}));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().detail.find("secret"), std::string::npos);
}

TEST(IsExemptTest, TakesNamesWithWhatIsBelowThem) {
  const config::Url url = *config::ParseUrl("https://api.example.com");
  EXPECT_TRUE(IsExempt("*", url));
  EXPECT_TRUE(IsExempt("x, example.com", url));
  EXPECT_TRUE(IsExempt(".EXAMPLE.com", url));
  EXPECT_TRUE(IsExempt("api.example.com:443", url));
  EXPECT_FALSE(IsExempt("ample.com", url));
  EXPECT_FALSE(IsExempt("api.example.com:80", url));
  EXPECT_FALSE(IsExempt("", url));
}

}  // namespace
}  // namespace kvgate::upstream::wire
