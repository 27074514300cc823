// Gateways hear of each other's sessions: each once, renewed, after the store was away or forgot.
#include "gateway/session/log/shared_roots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <thread>

#include "tests/store/shared/memory_client.h"

namespace kvgate::session::log {
namespace {

using store::shared::MemoryClient;
using store::shared::MemoryServer;
using store::shared::SharedMap;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SharedRootsTest : public ::testing::Test {
 protected:
  struct Gateway {
    Gateway(MemoryServer& server, const Keyring& ring, const SharedRoots::Options& options)
        : client(server),
          map({.kind = "sessions", .is_listed = true}, client, ring),
          roots(options, map) {}
    std::vector<std::string> Heard(std::string_view tenant = "t") {
      roots.Hear();
      return roots.Of(tenant);
    }
    uint64_t NumSaid() const { return static_cast<uint64_t>(client.said.size()); }
    MemoryClient client;
    SharedMap map;
    SharedRoots roots;
  };
  MemoryServer server_;
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  Gateway a_{server_, *ring_, {}};
  Gateway b_{server_, *ring_, {}};
};

TEST_F(SharedRootsTest, WhatOneSaysTheOthersHearInItsOrder) {
  a_.roots.Say({.tenant = "t", .root = "one"});
  b_.roots.Say({.tenant = "t", .root = "two"});
  a_.roots.Say({.tenant = "u", .root = "three"});
  a_.roots.Say({.tenant = "t", .root = "four"});
  EXPECT_THAT(b_.roots.Of("t"), IsEmpty());  // it has not asked
  EXPECT_THAT(b_.Heard(), ElementsAre("one", "two", "four"));
  EXPECT_THAT(a_.Heard(), ElementsAre("one", "two", "four"));
  EXPECT_THAT(b_.Heard("u"), ElementsAre("three"));
  EXPECT_THAT(b_.Heard(""), IsEmpty());
  b_.roots.Drop({.tenant = "t", .root = "one"});
  b_.roots.Drop({.tenant = "t", .root = "none"});
  EXPECT_THAT(b_.Heard(), ElementsAre("two", "four"));
}

TEST_F(SharedRootsTest, OneThatGoesOnIsSaidAgainOnlyAfterItsTime) {
  a_.roots.Say({.tenant = "t", .root = "one"});
  const uint64_t said = a_.NumSaid();
  for (int i = 0; i < 100; ++i) a_.roots.Say({.tenant = "t", .root = "one"});
  EXPECT_EQ(a_.NumSaid(), said);
  Gateway hasty(server_, *ring_, {.renewed = std::chrono::seconds(0)});
  hasty.roots.Say({.tenant = "t", .root = "one"});
  const uint64_t said_once = hasty.NumSaid();
  hasty.roots.Say({.tenant = "t", .root = "one"});
  EXPECT_GT(hasty.NumSaid(), said_once);
  EXPECT_THAT(b_.Heard(), ElementsAre("one"));
}

TEST_F(SharedRootsTest, WhatCouldNotBeSaidIsSaidLater) {
  a_.client.is_down = true;
  a_.roots.Say({.tenant = "t", .root = "one"});
  a_.roots.Say({.tenant = "t", .root = "two"});
  EXPECT_THAT(b_.Heard(), IsEmpty());
  a_.client.is_down = false;
  a_.roots.Hear();
  EXPECT_THAT(b_.Heard(), ElementsAre("one", "two"));
  // A server that carried it out and did not say so has it once.
  a_.client.loses_answers = true;
  a_.roots.Say({.tenant = "t", .root = "three"});
  a_.client.loses_answers = false;
  a_.roots.Hear();
  EXPECT_THAT(b_.Heard(), ElementsAre("one", "two", "three"));
}

TEST_F(SharedRootsTest, AServerThatForgotIsToldAgain) {
  a_.roots.Say({.tenant = "t", .root = "one"});
  EXPECT_THAT(b_.Heard(), ElementsAre("one"));
  server_.Flush();
  a_.roots.Say({.tenant = "t", .root = "two"});
  EXPECT_THAT(b_.Heard(), ElementsAre("two"));
  a_.roots.Say({.tenant = "t", .root = "one"}, SharedRoots::When::kAnyway);
  EXPECT_THAT(b_.Heard(), ElementsAre("two", "one"));
}

TEST_F(SharedRootsTest, WhoSaysWhatWasSaidLatelyWaitsForNobodyWhoAsksTheStore) {
  a_.roots.Say({.tenant = "t", .root = "one"});
  std::unique_lock store(server_.mutex);  // from now on the server does not answer
  const int before = a_.client.num_begun;
  std::thread hearing([this] { a_.roots.Hear(); });
  while (a_.client.num_begun == before) std::this_thread::yield();
  a_.roots.Say({.tenant = "t", .root = "one"});
  EXPECT_THAT(a_.roots.Of("t"), IsEmpty());
  store.unlock();
  hearing.join();
  EXPECT_THAT(a_.roots.Of("t"), ElementsAre("one"));
}

TEST_F(SharedRootsTest, ThousandsAreHeardByPages) {
  constexpr size_t kRoots = 3'000;
  for (size_t i = 0; i < kRoots; ++i) {
    a_.roots.Say({.tenant = i % 2 == 0 ? "t" : "u", .root = std::to_string(i)});
  }
  EXPECT_EQ(b_.Heard("t").size(), kRoots / 2);
  EXPECT_EQ(b_.Heard("u").size(), kRoots / 2);
  EXPECT_EQ(b_.Heard("t").front(), "0");
}

}  // namespace
}  // namespace kvgate::session::log
