#include "store/remote/resp_url.h"

#include <gtest/gtest.h>

#include <string>

namespace kvgate::store::remote {
namespace {

RespAddress Parsed(std::string_view url) {
  const auto parsed = ParseRespUrl(url, "store.url");
  EXPECT_TRUE(parsed) << url << ": " << parsed.error().ToString();
  return parsed ? *parsed : RespAddress();
}

TEST(RespUrlTest, EveryPartButTheHostHasADefault) {
  EXPECT_EQ(Parsed("redis://store"), (RespAddress{.endpoints = {{"store", 6379}}}));
  EXPECT_EQ(Parsed("redis://store/"), (RespAddress{.endpoints = {{"store", 6379}}}));
  EXPECT_EQ(
      Parsed("valkeys://agent%40x@10.0.0.1:7000,[::1]:7001,[fe80::2],c_d.e-f/15"),
      (RespAddress{
          .endpoints = {{"10.0.0.1", 7000}, {"::1", 7001}, {"fe80::2", 6379}, {"c_d.e-f", 6379}},
          .has_tls = true,
          .user = "agent@x",
          .database = 15}));
}

TEST(RespUrlTest, TheSchemeSaysWhetherThereIsTls) {
  EXPECT_FALSE(Parsed("redis://s").has_tls);
  EXPECT_FALSE(Parsed("valkey://s").has_tls);
  EXPECT_TRUE(Parsed("rediss://s").has_tls);
  EXPECT_TRUE(Parsed("valkeys://s").has_tls);
}

TEST(RespUrlTest, AnEndpointIsWrittenAsAUrlHasIt) {
  EXPECT_EQ((RespEndpoint{.host = "store", .port = 1}).ToString(), "store:1");
  EXPECT_EQ((RespEndpoint{.host = "::1", .port = 65'535}).ToString(), "[::1]:65535");
}

TEST(RespUrlTest, OtherTextsAreRefusedByTheNameOfTheField) {
  for (const std::string& url : {std::string(),
                                 std::string("store:6379"),
                                 std::string("http://store"),
                                 std::string("redis://"),
                                 std::string("redis:///1"),
                                 std::string("redis://a,"),
                                 std::string("redis://,a"),
                                 std::string("redis://a:"),
                                 std::string("redis://a:0"),
                                 std::string("redis://a:65536"),
                                 std::string("redis://a:+1"),
                                 std::string("redis://a:6379x"),
                                 std::string("redis://::1"),
                                 std::string("redis://[::1"),
                                 std::string("redis://[::1]6379"),
                                 std::string("redis://[a]"),
                                 std::string("redis://[127.0.0.1]"),
                                 std::string("redis://a b"),
                                 std::string("redis://a/x"),
                                 std::string("redis://a/-1"),
                                 std::string("redis://a/100000"),
                                 std::string("redis://a/1/2"),
                                 std::string("redis://a?timeout=1"),
                                 std::string("redis://a#b"),
                                 std::string("redis://@a"),
                                 std::string("redis://u%4@a"),
                                 std::string("redis://u%zz@a"),
                                 std::string("redis://u%20v@a"),
                                 std::string("redis://u%0Av@a"),
                                 std::string("redis://u@v@a"),
                                 std::string("redis://a\n"),
                                 std::string("redis://a\0b", 11),
                                 "redis://" + std::string(300, 'a'),
                                 "redis://" + std::string(5000, 'a')}) {
    const auto parsed = ParseRespUrl(url, "store.url");
    ASSERT_FALSE(parsed) << url;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(parsed.error().field, "store.url");
    EXPECT_NE(parsed.error().detail.find("store.url"), std::string::npos);
  }
  std::string many = "redis://a";
  for (int index = 0; index < 32; ++index) many += ",a";
  EXPECT_FALSE(ParseRespUrl(many, "f"));
}

TEST(RespUrlTest, APasswordIsRefusedAndNeverRepeated) {
  for (const std::string_view url :
       {"redis://agent:hunter2@store", "redis://:hunter2@store", "redis://agent:hunter2@x@store",
        "redis://agent:hun/hunter2@store", "redis://store:hunter2", "hunter2", "hunter2://store",
        "redis://store/hunter2", "redis://hunter2!", "redis://hunt,hunter2@x:y",
        "redis://h?hunter2", "redis://agent%zzhunter2@store"}) {
    const auto parsed = ParseRespUrl(url, "store.url");
    ASSERT_FALSE(parsed) << url;
    EXPECT_EQ(parsed.error().ToString().find("hunter2"), std::string::npos) << url;
  }
  const auto parsed = ParseRespUrl("redis://agent:hunter2@store", "store.url");
  EXPECT_NE(parsed.error().detail.find("environment"), std::string::npos);
}

TEST(RespUrlTest, AddressesAreToldFromNames) {
  EXPECT_TRUE(IsIpAddress("127.0.0.1"));
  EXPECT_TRUE(IsIpAddress("::1"));
  EXPECT_FALSE(IsIpAddress("localhost"));
  EXPECT_FALSE(IsIpAddress("127.0.0.1.example"));
}

}  // namespace
}  // namespace kvgate::store::remote
