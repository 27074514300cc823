// Two gateways' session logs over one shared store: what one of them says the other reads, one of
// two writers wins, and nothing that was acknowledged is lost while the store comes and goes.
#include "gateway/session/log/shared_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "gateway/dialect/responses/response_items.h"
#include "gateway/session/log/history.h"
#include "gateway/session/log/session_log.h"
#include "tests/gateway/service/kept_responses.h"
#include "tests/gateway/session/session_turns.h"
#include "tests/store/memory_meta_store.h"
#include "tests/store/shared/memory_client.h"

namespace kvgate::session::log {
namespace {

using store::shared::MemoryClient;
using store::shared::MemoryServer;
using store::shared::SharedLogs;
using test::TurnOf;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

const SessionLog::Place kPlace{.tenant = "t", .key = "k"};

struct Gateway {
  Gateway(MemoryServer& server, const Keyring& ring)
      : client(server), logs({}, client, ring), map(ListedOptions(), client, ring) {
    Restart();
  }
  static store::shared::SharedMap::Options ListedOptions() {
    return {.kind = "sessions", .is_listed = true};
  }
  // What was in memory is gone.
  void Restart() {
    log.reset();
    shared.reset();
    turns.reset();
    turns = test::OpenTurns(meta);
    shared = std::make_unique<SharedTurns>(*turns, logs, &map);
    log = std::make_unique<SessionLog>(turns.get(), shared.get());
  }
  Result<void> Add(int number, const std::string& text, std::string parent = {},
                   std::optional<SharedTurns::Seen> seen = std::nullopt) {
    LoggedTurn turn = TurnOf(number, {text});
    turn.parent = parent;
    return log->Append(kPlace, Dialect::kChatCompletions, turn, seen);
  }
  // The ids of all turns of the session, in the order in which they stand here.
  std::vector<std::string> Ids(const SessionLog::Place& place = kPlace) {
    std::vector<std::string> ids;
    const auto root = log->Find(place);
    if (!root) return ids;
    const auto all = log->All(place, *root);
    EXPECT_TRUE(all) << all.error().ToString();
    for (const LoggedTurn& turn : *all) ids.push_back(turn.id);
    return ids;
  }

  // The keys of a tenant's sessions, as they are listed by pages of two.
  std::vector<std::string> Listed(std::string_view tenant = "t") {
    std::vector<std::string> keys;
    uint64_t before = 0;
    for (bool has_more = true; has_more;) {
      const auto page = log->List(tenant, 2, before);
      EXPECT_TRUE(page);
      if (!page) break;
      for (const SessionLog::Root& root : page->sessions) keys.push_back(root.key);
      has_more = page->has_more;
      before = page->next;
    }
    return keys;
  }
  Result<void> Begin(const std::string& tenant, const std::string& key, int number) {
    LoggedTurn turn = TurnOf(number, {"hello"});
    turn.parent.clear();
    return log->Append({.tenant = tenant, .key = key}, Dialect::kChatCompletions, turn);
  }

  store::MemoryMetaStore meta;
  MemoryClient client;
  SharedLogs logs;
  store::shared::SharedMap map;
  std::unique_ptr<store::meta::TurnStore> turns;
  std::unique_ptr<SharedTurns> shared;
  std::unique_ptr<SessionLog> log;
};

class SharedTurnsTest : public ::testing::Test {
 protected:
  MemoryServer server_;
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  Gateway a_{server_, *ring_};
  Gateway b_{server_, *ring_};
};

TEST_F(SharedTurnsTest, ASessionGoesOnAtAnyGateway) {
  ASSERT_TRUE(a_.Add(1, "a"));
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1"));
  ASSERT_TRUE(b_.Add(2, "b", "turn_1"));
  EXPECT_THAT(a_.Ids(), ElementsAre("turn_1", "turn_2"));
  ASSERT_TRUE(a_.Add(3, "c", "turn_2"));
  const auto root = b_.log->Find(kPlace);
  ASSERT_TRUE(root);
  const auto head = b_.log->Head(kPlace, *root);
  ASSERT_TRUE(head && *head);
  EXPECT_EQ((*head)->id, "turn_3");
  const auto branch = b_.log->Load(kPlace, *root, "turn_3", SessionLog::Reach::kBranch);
  ASSERT_TRUE(branch);
  EXPECT_THAT(test::SaidOf(HistoryOf(*branch).messages),
              ElementsAre("a", "A1", "b", "A2", "c", "A3"));
  // Of another tenant there is nothing.
  EXPECT_FALSE(b_.log->Find({.tenant = "u", .key = "k"}));
}

TEST_F(SharedTurnsTest, AListHasTheSessionsOfAllGatewaysAndOfNoOtherTenant) {
  ASSERT_TRUE(a_.Begin("t", "a1", 1));
  ASSERT_TRUE(a_.Begin("u", "a2", 2));
  ASSERT_TRUE(b_.Begin("t", "b1", 3));
  ASSERT_TRUE(a_.Begin("t", "a3", 4));
  ASSERT_TRUE(a_.Begin("t", "a4", 5));
  EXPECT_THAT(b_.Listed(), UnorderedElementsAreArray({"a1", "b1", "a3", "a4"}));
  EXPECT_THAT(a_.Listed(), UnorderedElementsAreArray({"a1", "b1", "a3", "a4"}));
  EXPECT_THAT(b_.Listed("u"), ElementsAre("a2"));
  EXPECT_THAT(b_.Listed("v"), ElementsAre());
  // A gateway that is new, and one that begins anew, hear of all.
  Gateway c(server_, *ring_);
  EXPECT_THAT(c.Listed(), ElementsAre("a4", "a3", "b1", "a1"));
  a_.Restart();
  ASSERT_TRUE(b_.Begin("t", "b2", 6));
  EXPECT_THAT(a_.Listed(), UnorderedElementsAreArray({"a1", "b1", "a3", "a4", "b2"}));
}

TEST_F(SharedTurnsTest, WhatWasRemovedAtOneGatewayIsInNoList) {
  ASSERT_TRUE(a_.Begin("t", "a1", 1));
  ASSERT_TRUE(a_.Begin("t", "a2", 2));
  ASSERT_TRUE(a_.Begin("t", "a3", 3));
  EXPECT_EQ(b_.Listed().size(), 3u);
  ASSERT_TRUE(a_.log->Remove({.tenant = "t", .key = "a1"}));
  ASSERT_TRUE(b_.log->Remove({.tenant = "t", .key = "a2"}));
  EXPECT_THAT(a_.Listed(), ElementsAre("a3"));
  EXPECT_THAT(b_.Listed(), ElementsAre("a3"));
  Gateway c(server_, *ring_);
  EXPECT_THAT(c.Listed(), ElementsAre("a3"));
  // A session of the same key may begin again.
  ASSERT_TRUE(c.Begin("t", "a1", 4));
  EXPECT_THAT(b_.Listed(), UnorderedElementsAreArray({"a1", "a3"}));
}

TEST_F(SharedTurnsTest, WhatTheStoreForgotOrMissedIsListedOnceItGoesOn) {
  ASSERT_TRUE(a_.Begin("t", "a1", 1));
  EXPECT_EQ(b_.Listed().size(), 1u);
  server_.Flush();
  Gateway c(server_, *ring_);
  EXPECT_THAT(c.Listed(), ElementsAre());
  ASSERT_TRUE(a_.log->Find({.tenant = "t", .key = "a1"}));  // which tells the new store of it
  a_.client.is_down = true;
  ASSERT_TRUE(a_.Begin("t", "a2", 2));
  EXPECT_THAT(c.Listed(), ElementsAre("a1"));
  a_.client.is_down = false;
  LoggedTurn turn = TurnOf(3, {"again"});
  turn.parent = "turn_2";
  ASSERT_TRUE(a_.log->Append({.tenant = "t", .key = "a2"}, Dialect::kChatCompletions, turn));
  EXPECT_THAT(c.Listed(), UnorderedElementsAreArray({"a1", "a2"}));
}

TEST_F(SharedTurnsTest, ManySessionsAreTakenInByAFewCalls) {
  constexpr int kSessions = 700;
  for (int i = 0; i < kSessions; ++i) ASSERT_TRUE(a_.Begin("t", std::to_string(i), i));
  size_t num_taken = 0;
  int calls = 0;
  for (size_t taken = 1; taken > 0; num_taken += taken, ++calls) {
    taken = b_.shared->TakeInOthers("t");
  }
  EXPECT_EQ(num_taken, static_cast<size_t>(kSessions));
  EXPECT_EQ(calls, 4);
}

TEST_F(SharedTurnsTest, OfTwoWritersTheSlowerOneIsRefusedAndKeepsNothing) {
  ASSERT_TRUE(a_.Add(1, "a"));
  EXPECT_THAT(a_.Ids(), ElementsAre("turn_1"));
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1"));
  const auto seen_a = a_.log->SeenOf(kPlace);
  const auto seen_b = b_.log->SeenOf(kPlace);
  ASSERT_TRUE(b_.Add(2, "of b", "turn_1", seen_b));
  const Result<void> slower = a_.Add(3, "of a", "turn_1", seen_a);
  ASSERT_FALSE(slower);
  EXPECT_EQ(slower.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(a_.Ids(), ElementsAre("turn_1", "turn_2"));
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1", "turn_2"));
  // Once it has read what was said, it is its turn.
  ASSERT_TRUE(a_.Add(3, "of a", "turn_2", a_.log->SeenOf(kPlace)));
}

TEST_F(SharedTurnsTest, TwoThatCreateASessionAtOnceAreTwoWriters) {
  EXPECT_FALSE(a_.log->Find(kPlace));
  EXPECT_FALSE(b_.log->Find(kPlace));
  ASSERT_TRUE(a_.Add(1, "of a", "", a_.log->SeenOf(kPlace)));
  EXPECT_FALSE(b_.Add(2, "of b", "", SharedTurns::Seen{0}));
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1"));
}

TEST_F(SharedTurnsTest, EventsOfItsOwnRefuseNobodysTurn) {
  ASSERT_TRUE(a_.Add(1, "a"));
  (void)a_.Ids();
  const auto seen = a_.log->SeenOf(kPlace);
  ASSERT_TRUE(a_.Add(2, "an event", "turn_1"));
  EXPECT_TRUE(a_.Add(3, "a turn", "turn_2", seen));
}

TEST_F(SharedTurnsTest, WithoutTheStoreEachGoesOnAloneAndLaterAllIsEverywhere) {
  ASSERT_TRUE(a_.Add(1, "a"));
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1"));
  a_.client.is_down = b_.client.is_down = true;
  ASSERT_TRUE(a_.Add(2, "of a", "turn_1"));
  ASSERT_TRUE(b_.Add(3, "of b", "turn_1"));
  EXPECT_THAT(a_.Ids(), ElementsAre("turn_1", "turn_2"));
  b_.Restart();
  a_.client.is_down = b_.client.is_down = false;
  const std::vector<std::string> all = {"turn_1", "turn_2", "turn_3"};
  (void)a_.Ids();
  EXPECT_THAT(b_.Ids(), UnorderedElementsAreArray(all));
  EXPECT_THAT(a_.Ids(), UnorderedElementsAreArray(all));
  // They agree which of both is the newest.
  const auto head_of = [](Gateway& gateway) {
    const auto root = gateway.log->Find(kPlace);
    const auto head = gateway.log->Head(kPlace, *root);
    return head && *head ? (*head)->id : std::string();
  };
  EXPECT_EQ(head_of(a_), head_of(b_));
}

TEST_F(SharedTurnsTest, AnAnswerThatIsLostStoresNothingTwice) {
  ASSERT_TRUE(a_.Add(1, "a"));
  a_.client.loses_answers = true;
  ASSERT_TRUE(a_.Add(2, "b", "turn_1"));  // it is there, and a_ does not know
  a_.client.loses_answers = false;
  EXPECT_THAT(a_.Ids(), ElementsAre("turn_1", "turn_2"));
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1", "turn_2"));
}

// As a client does whose connection is closed before the answer comes.
TEST_F(SharedTurnsTest, AnAdditionThatIsCarriedOutTwiceIsOne) {
  ASSERT_TRUE(a_.Add(1, "a"));
  (void)a_.Ids();
  a_.client.repeats = true;
  ASSERT_TRUE(a_.Add(2, "b", "turn_1", a_.log->SeenOf(kPlace)));
  ASSERT_TRUE(a_.Add(3, "c", "turn_2", a_.log->SeenOf(kPlace)));
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1", "turn_2", "turn_3"));
  EXPECT_THAT(a_.Ids(), ElementsAre("turn_1", "turn_2", "turn_3"));
}

TEST_F(SharedTurnsTest, AStoreThatForgetsIsFilledAgain) {
  ASSERT_TRUE(a_.Add(1, "a"));
  ASSERT_TRUE(a_.Add(2, "b", "turn_1"));
  server_.Flush();
  EXPECT_THAT(b_.Ids(), ElementsAre());
  EXPECT_THAT(a_.Ids(), ElementsAre("turn_1", "turn_2"));
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1", "turn_2"));
}

TEST_F(SharedTurnsTest, WhatIsRemovedIsGoneEverywhereAndTheKeyIsFree) {
  ASSERT_TRUE(a_.Add(1, "a"));
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1"));
  b_.client.is_down = true;
  EXPECT_EQ(b_.log->Remove(kPlace).error().code, ErrorCode::kUnavailable);
  b_.client.is_down = false;
  ASSERT_TRUE(b_.log->Remove(kPlace));
  EXPECT_THAT(b_.Ids(), ElementsAre());
  EXPECT_THAT(a_.Ids(), ElementsAre());
  EXPECT_FALSE(a_.log->Find(kPlace));
  ASSERT_TRUE(a_.Add(2, "anew", "", a_.log->SeenOf(kPlace)));
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_2"));
  a_.Restart();
  EXPECT_THAT(a_.Ids(), ElementsAre("turn_2"));
}

TEST_F(SharedTurnsTest, StoredResponsesAreFoundByTheirIds) {
  const auto id_of = [](int number) {
    return std::string(dialect::form::kResponsePrefix) + std::to_string(number);
  };
  const auto entry = [](std::string id, std::string parent) {
    store::meta::Turn turn;
    turn.id = std::move(id);
    turn.parent = std::move(parent);
    turn.tenant = "t";
    turn.items.push_back({.role = "x", .payload = "{}"});
    return turn;
  };
  ASSERT_TRUE(a_.log->AppendKept({.tenant = "t", .key = id_of(1)}, entry(id_of(1), "")));
  b_.log->Refresh("t", id_of(1));
  EXPECT_TRUE(b_.turns->Get("t", id_of(1)));
  ASSERT_TRUE(b_.log->AppendKept({.tenant = "t", .key = id_of(2)}, entry(id_of(2), id_of(1))));
  a_.log->Refresh("t", id_of(2));
  EXPECT_EQ(a_.turns->Get("t", id_of(2))->parent, id_of(1));
  // Both may go on from the same one: these are branches.
  ASSERT_TRUE(a_.log->AppendKept({.tenant = "t", .key = id_of(3)}, entry(id_of(3), id_of(1))));
  ASSERT_TRUE(b_.log->AppendKept({.tenant = "t", .key = id_of(4)}, entry(id_of(4), id_of(1))));
  a_.log->Refresh("t", id_of(4));
  EXPECT_TRUE(a_.turns->Get("t", id_of(4)));
  EXPECT_FALSE(a_.turns->Get("u", id_of(4)));
}

TEST_F(SharedTurnsTest, AnEventBehindWhatAnotherGatewaySaidIsRefused) {
  ASSERT_TRUE(a_.Add(1, "a"));
  (void)a_.Ids();
  const auto seen = a_.log->SeenOf(kPlace);  // as a summary that is being made
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1"));
  ASSERT_TRUE(b_.Add(2, "b", "turn_1"));
  const auto event = a_.Add(3, "an event", "turn_1", seen);
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(a_.Ids(), ElementsAre("turn_1", "turn_2"));
}

TEST_F(SharedTurnsTest, WhatTwoGatewaysAddToAConversationStandsInOneLine) {
  const std::string key = std::string(dialect::responses::kConversationPrefix) + "1";
  const SessionLog::Place place{.tenant = "t", .key = key};
  const auto entry = [&](std::string id) {
    store::meta::Turn turn;
    turn.id = std::move(id);
    turn.tenant = "t";
    turn.session = key;
    turn.items.push_back({.role = "x", .payload = "{}"});
    return turn;
  };
  ASSERT_TRUE(a_.log->AppendKept(place, entry(key)));
  ASSERT_TRUE(b_.log->Tip(place));
  // The other one adds an entry while this one's is made.
  int num_made = 0;
  const auto added = a_.log->AppendAtTip(place, [&](const std::string&) {
    if (++num_made == 1) {
      EXPECT_TRUE(b_.log->AppendAtTip(place, [&](const std::string&) { return entry("of b"); }));
    }
    return Result<store::meta::Turn>(entry("of a"));
  });
  ASSERT_TRUE(added) << added.error().ToString();
  EXPECT_EQ(num_made, 2);
  EXPECT_EQ(a_.turns->Get("t", "of a")->parent, "of b");
  EXPECT_EQ(*b_.log->Tip(place), "of a");
}

TEST_F(SharedTurnsTest, ASessionIsCreatedOnce) {
  EXPECT_FALSE(a_.log->Find(kPlace));
  LoggedTurn turn = TurnOf(1, {"a"});
  turn.parent.clear();
  const auto create = [&](Gateway& gateway, std::string_view id) {
    return gateway.log->Create({.place = kPlace,
                                .dialect = Dialect::kChatCompletions,
                                .turns = {&turn, 1},
                                .request_id = id});
  };
  ASSERT_TRUE(create(b_, "b"));
  EXPECT_EQ(create(a_, "a").error().field, "key");
  EXPECT_EQ(a_.Ids().size(), 1u);
}

TEST_F(SharedTurnsTest, WhatWasRetiredHereComesBack) {
  ASSERT_TRUE(a_.Add(1, "a"));
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1"));
  ASSERT_TRUE(b_.turns->PurgeConversation("t", "session-root:k"));  // as for want of space
  EXPECT_THAT(b_.Ids(), ElementsAre("turn_1"));
  ASSERT_TRUE(b_.Add(2, "b", "turn_1", b_.log->SeenOf(kPlace)));
  EXPECT_THAT(a_.Ids(), ElementsAre("turn_1", "turn_2"));
}

// Random turns at both, with stores that go, forget and lose answers, and gateways that restart.
// What was acknowledged is at both in the end, and of two turns behind one head one is there.
TEST_F(SharedTurnsTest, WhateverHappensNoAcknowledgedTurnIsLost) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    MemoryServer server;
    Gateway gateways[] = {{server, *ring_}, {server, *ring_}};
    std::mt19937 random(seed);
    std::vector<std::string> acknowledged;
    for (int number = 1; number <= 60; ++number) {
      Gateway& gateway = gateways[random() % 2];
      const uint32_t event = random() % 12;
      if (event == 0) gateway.Restart();
      if (event == 1) gateway.client.is_down = !gateway.client.is_down;
      if (event == 2) gateway.client.loses_answers = !gateway.client.loses_answers;
      if (event == 3) server.Flush();
      const std::vector<std::string> ids = gateway.Ids();
      const bool added =
          gateway.Add(number, "x", ids.empty() ? "" : ids.back(), gateway.log->SeenOf(kPlace))
              .has_value();
      if (added) acknowledged.push_back("turn_" + std::to_string(number));
    }
    for (Gateway& gateway : gateways) {
      gateway.client.is_down = gateway.client.loses_answers = false;
      (void)gateway.Ids();
    }
    for (Gateway& gateway : gateways) {
      EXPECT_THAT(gateway.Ids(), ::testing::IsSupersetOf(acknowledged)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace kvgate::session::log
