#include "engine/mailbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace kvgate::engine {
namespace {

TEST(MailboxTest, RefusesBeyondTheBoundUntilOneIsReleased) {
  Mailbox mailbox(2);
  EXPECT_TRUE(mailbox.TryPost([] {}));
  EXPECT_TRUE(mailbox.TryPost([] {}));
  EXPECT_FALSE(mailbox.TryPost([] {}));
  mailbox.Post([] {});  // Post never refuses, because its messages must not be lost
  EXPECT_EQ(mailbox.TakeAll({}).size(), 3u);
  EXPECT_FALSE(mailbox.TryPost([] {})) << "taking a message does not end the request";
  mailbox.ReleaseBounded();
  EXPECT_TRUE(mailbox.TryPost([] {}));
}

TEST(MailboxTest, EveryMessageOfEverySenderArrivesInItsOrder) {
  constexpr int kSenders = 4;
  constexpr int kMessages = 5000;
  Mailbox mailbox(1);
  std::vector<int> next(kSenders, 0);
  bool ordered = true;
  std::vector<std::thread> senders;
  for (int sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([&, sender] {
      for (int i = 0; i < kMessages; ++i) {
        mailbox.Post([&, sender, i] {
          ordered = ordered && next[static_cast<size_t>(sender)] == i;
          ++next[static_cast<size_t>(sender)];
        });
      }
    });
  }
  int num_taken = 0;
  while (num_taken < kSenders * kMessages) {
    for (const Mailbox::Message& message : mailbox.TakeAll(std::chrono::seconds(10))) {
      message();
      ++num_taken;
    }
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_TRUE(ordered);
}

}  // namespace
}  // namespace kvgate::engine
