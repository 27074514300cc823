#include "store/shared/shared_logs.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/store/shared/memory_client.h"

namespace kvgate::store::shared {
namespace {

using Strings = std::vector<std::string>;

class SharedLogsTest : public testing::Test {
 protected:
  // Adds to the log as it is now if it has that length, and returns the new length.
  std::optional<uint64_t> Append(const SharedLogs& logs, uint64_t length, const Strings& entries,
                                 bool clears = false, const Strings& ids = {}) {
    const auto now = logs.Read(name_, 0);
    const auto appended =
        logs.Append(name_, {.expected = {.length = length, .epoch = now->state.epoch},
                            .entries = entries,
                            .ids = ids,
                            .clears = clears});
    EXPECT_TRUE(appended) << appended.error().ToString();
    return appended && *appended ? std::optional((*appended)->length) : std::nullopt;
  }
  Strings Read(const SharedLogs& logs, uint64_t from = 0) {
    const auto part = logs.Read(name_, from);
    EXPECT_TRUE(part) << part.error().ToString();
    return part ? part->entries : Strings();
  }

  MemoryServer server_;
  MemoryClient client_{server_};
  MemoryClient other_client_{server_};
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  SharedLogs logs_{{}, client_, *ring_};
  SharedLogs other_{{}, other_client_, *ring_};
  const SharedLogs::Name name_{.tenant = "alice", .root = "root"};
};

TEST_F(SharedLogsTest, EntriesAreReadByAllInTheirOrder) {
  EXPECT_EQ(logs_.Read(name_, 0)->state.length, 0u);
  EXPECT_EQ(Append(logs_, 0, {"a", "b"}), 2u);
  EXPECT_EQ(Append(other_, 2, {"c"}), 3u);
  EXPECT_EQ(Read(logs_), (Strings{"a", "b", "c"}));
  EXPECT_EQ(Read(other_, 2), Strings{"c"});
  EXPECT_EQ(logs_.Read({.tenant = "bob", .root = "root"}, 0)->state.length, 0u);
}

TEST_F(SharedLogsTest, OfTwoThatGoOnFromTheSameStateOneWins) {
  EXPECT_EQ(Append(logs_, 0, {"a"}), 1u);
  EXPECT_EQ(Append(logs_, 1, {"mine"}), 2u);
  EXPECT_EQ(Append(other_, 1, {"theirs"}), std::nullopt);
  EXPECT_EQ(Read(other_), (Strings{"a", "mine"}));
}

TEST_F(SharedLogsTest, WhatIsClearedStillCounts) {
  EXPECT_EQ(Append(logs_, 0, {"a", "b"}), 2u);
  EXPECT_EQ(Append(logs_, 2, {"cleared"}, true), 3u);
  const auto part = other_.Read(name_, 0);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->state.length, 3u);
  EXPECT_EQ(part->first, 2u);
  EXPECT_EQ(part->entries, Strings{"cleared"});
  EXPECT_EQ(Append(other_, 3, {"c"}), 4u);
  EXPECT_EQ(Read(logs_, 3), Strings{"c"});
}

TEST_F(SharedLogsTest, AnIdLeadsToItsLog) {
  EXPECT_EQ(Append(logs_, 0, {"a"}, false, {"resp_1"}), 1u);
  EXPECT_EQ(**other_.RootOf("alice", "resp_1"), "root");
  EXPECT_EQ(*other_.RootOf("alice", "resp_2"), std::nullopt);
  EXPECT_EQ(*other_.RootOf("bob", "resp_1"), std::nullopt);
}

TEST_F(SharedLogsTest, NothingStandsThereInClearAndWhatIsDamagedIsLeftOut) {
  EXPECT_EQ(Append(logs_, 0, {"the first words", "the second words"}, false, {"resp_1"}), 2u);
  for (const auto& [key, list] : server_.lists) {
    EXPECT_EQ(key.find("alice"), std::string::npos);
    for (const std::string& entry : list) EXPECT_EQ(entry.find("words"), std::string::npos);
  }
  for (const auto& [key, value] : server_.values) {
    EXPECT_EQ(key.find("resp_1"), std::string::npos);
    EXPECT_EQ(value.find("root"), std::string::npos);
  }
  server_.lists.begin()->second[0][20] ^= 1;
  const auto part = logs_.Read(name_, 0);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->entries, Strings{"the second words"});
  EXPECT_EQ(part->num_damaged, 1u);
  EXPECT_EQ(part->state.length, 2u);
  // What another secret sealed for another place does not lead anywhere.
  server_.values.begin()->second = "forged";
  EXPECT_EQ(*logs_.RootOf("alice", "resp_1"), std::nullopt);
  const auto their_ring = Keyring::Generate();
  EXPECT_EQ(SharedLogs({}, client_, *their_ring).Read(name_, 0)->state.length, 0u);
}

TEST_F(SharedLogsTest, WhatIsCarriedOutTwiceIsAddedOnce) {
  client_.repeats = true;
  EXPECT_EQ(Append(logs_, 0, {"a", "b"}), 2u);
  EXPECT_EQ(Append(logs_, 2, {"c"}), 3u);
  EXPECT_EQ(Append(logs_, 3, {"cleared"}, true), 4u);
  EXPECT_EQ(Append(logs_, 4, {"d"}), 5u);
  EXPECT_EQ(Read(other_), (Strings{"cleared", "d"}));
}

TEST_F(SharedLogsTest, ALogThatTheServerHasForgottenIsAnother) {
  EXPECT_EQ(Append(logs_, 0, {"a"}), 1u);
  const SharedLogs::State before = logs_.Read(name_, 0)->state;
  server_.Flush();
  EXPECT_EQ(logs_.Read(name_, 0)->state, SharedLogs::State());
  EXPECT_EQ(Append(other_, 0, {"b"}), 1u);
  EXPECT_NE(logs_.Read(name_, 0)->state.epoch, before.epoch);
  // Its length is the one expected, but it is not that log.
  const auto appended = logs_.Append(name_, {.expected = before, .entries = Strings{"c"}});
  ASSERT_TRUE(appended);
  EXPECT_EQ(*appended, std::nullopt);
  // Half of it is nothing.
  server_.values.clear();
  EXPECT_EQ(logs_.Read(name_, 0)->state, SharedLogs::State());
  EXPECT_EQ(Append(logs_, 0, {"d"}), 1u);
  EXPECT_EQ(Read(other_), Strings{"d"});
}

TEST_F(SharedLogsTest, AServerThatIsDownIsAnError) {
  client_.is_down = true;
  EXPECT_FALSE(logs_.Read(name_, 0));
  EXPECT_FALSE(logs_.Append(name_, {.entries = Strings{"a"}}));
  EXPECT_FALSE(logs_.RootOf("alice", "resp_1"));
  EXPECT_TRUE(logs_.is_paused());
}

}  // namespace
}  // namespace kvgate::store::shared
