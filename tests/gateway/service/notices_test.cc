#include "gateway/service/notices.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvgate::service {
namespace {

using dialect::form::Message;

dialect::form::Prompt Chat(std::string first, size_t num_more) {
  std::vector<Message> messages = {{.role = "system", .content = "rules"},
                                   {.role = "user", .content = std::move(first)}};
  for (size_t i = 0; i < num_more; ++i) messages.push_back({.role = "assistant", .content = "x"});
  return messages;
}

TEST(NoticesTest, IsSaidOnceAConversation) {
  Notices notices;
  EXPECT_TRUE(notices.IsFirst("t", Chat("a", 0), "image"));
  EXPECT_FALSE(notices.IsFirst("t", Chat("a", 4), "image")) << "a later turn of it";
  EXPECT_TRUE(notices.IsFirst("t", Chat("a", 4), "audio"));
  EXPECT_TRUE(notices.IsFirst("t", Chat("b", 0), "image"));
  EXPECT_TRUE(notices.IsFirst("u", Chat("a", 0), "image"));
}

TEST(NoticesTest, RemembersSoManyAtMost) {
  Notices notices;
  EXPECT_TRUE(notices.IsFirst("t", Chat("first", 0), "image"));
  for (size_t i = 0; i < Notices::kKnownMax; ++i) {
    ASSERT_TRUE(notices.IsFirst("t", Chat(std::to_string(i), 0), "image"));
  }
  EXPECT_TRUE(notices.IsFirst("t", Chat("first", 0), "image")) << "the oldest is forgotten";
  EXPECT_FALSE(notices.IsFirst("t", Chat("99", 0), "image"));
}

}  // namespace
}  // namespace kvgate::service
