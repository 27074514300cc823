#include "gateway/dialect/own/prefix_requests.h"

#include <gtest/gtest.h>

namespace kvgate::dialect::own {
namespace {

std::string FieldAtFault(std::string_view body) {
  const auto decoded = DecodeWarm(body, {});
  return decoded ? "" : decoded.error().field;
}

TEST(PrefixRequests, AChatAndACompletionAreToldApart) {
  const auto chat = DecodeWarm(
      R"({"model":"m","messages":[{"role":"system","content":"s"}],"kvgate":{"name":"agent",
          "version":"2","priority":7,"ttl_seconds":60}})",
      {});
  ASSERT_TRUE(chat) << chat.error().ToString();
  EXPECT_EQ(chat->request.dialect, form::Dialect::kChatCompletions);
  EXPECT_TRUE(chat->pin.pin);
  EXPECT_EQ(chat->pin.name, "agent");
  EXPECT_EQ(chat->pin.version, "2");
  EXPECT_EQ(chat->pin.priority, 7);
  EXPECT_EQ(chat->pin.ttl_seconds, 60);
  const auto completion = DecodeWarm(R"({"model":"m","prompt":"text"})", {});
  ASSERT_TRUE(completion) << completion.error().ToString();
  EXPECT_EQ(completion->request.dialect, form::Dialect::kCompletions);
  EXPECT_FALSE(completion->pin.pin);
}

TEST(PrefixRequests, PinSaysItselfWhetherItIsMeant) {
  const auto pins = [](std::string_view body) { return DecodePinOptions(body, {}).value().pin; };
  EXPECT_FALSE(pins(""));
  EXPECT_FALSE(pins("{}"));
  EXPECT_TRUE(pins(R"({"pin":true})"));
  EXPECT_TRUE(pins(R"({"name":"a"})"));
  EXPECT_FALSE(pins(R"({"name":"a","pin":false})"));
}

TEST(PrefixRequests, EveryBadFieldIsNamed) {
  constexpr std::string_view kHead = R"({"model":"m","prompt":"t","kvgate":)";
  const auto field = [&](std::string_view options) {
    return FieldAtFault(std::string(kHead) + std::string(options) + "}");
  };
  EXPECT_EQ(field("3"), "kvgate");
  EXPECT_EQ(field(R"({"priority":0})"), "kvgate.priority");
  EXPECT_EQ(field(R"({"priority":1001})"), "kvgate.priority");
  EXPECT_EQ(field(R"({"ttl_seconds":-1})"), "kvgate.ttl_seconds");
  EXPECT_EQ(field(R"({"name":7})"), "kvgate.name");
  EXPECT_EQ(field(R"({"pin":"yes"})"), "kvgate.pin");
  EXPECT_EQ(field(R"({"tll":1})"), "kvgate.tll");
  EXPECT_EQ(FieldAtFault(R"({"model":"m"})"), "messages");
  EXPECT_EQ(DecodePinOptions(R"({"priority":"high"})", {}).error().field, "priority");
}

}  // namespace
}  // namespace kvgate::dialect::own
