// Memories of two gateways that share a store, over a server in memory.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/seal.h"
#include "gateway/session/memory/memory_book.h"
#include "tests/store/memory_meta_store.h"
#include "tests/store/shared/memory_client.h"

namespace kvgate::session::memory {
namespace {

using store::meta::MetaTable;
using store::shared::MemoryClient;
using store::shared::MemoryServer;
using store::shared::SharedMap;

constexpr MemoryBook::Place kSession{.tenant = "t", .session = "s"};

// A gateway with its own disk and its own connection.
struct Gateway {
  Gateway(MemoryServer& server, std::shared_ptr<const Keyring> ring, int64_t& now)
      : client(server), map({.kind = "memory"}, client, *ring), now_us(now) {
    meta.SetKeyring(std::move(ring));
    Open();
  }
  void Open() {
    book.reset();
    auto opened = MemoryBook::Open(
        {.meta = meta, .shared = &map, .shared_wait = std::chrono::seconds(60), .now_us = [this] {
           return now_us;
         }});
    ASSERT_TRUE(opened);
    book = *std::move(opened);
  }
  void Set(const std::string& name, const std::string& value,
           const MemoryBook::Place& place = kSession) {
    const auto set = book->Update(place, [&](Memory& memory) -> Result<void> {
      const Entry entry{.name = name, .value = value};
      Apply({&entry, 1}, memory.entries);
      return {};
    });
    EXPECT_TRUE(set) << set.error().ToString();
    ++now_us;
  }
  Entries Has(const MemoryBook::Place& place = kSession) {
    const auto memory = book->Get(place);
    EXPECT_TRUE(memory);
    return memory ? memory->entries : Entries();
  }
  size_t NumRows() {
    size_t num_rows = 0;
    (void)meta.Scan(MetaTable::kPrefixes, "M", [&](auto, auto) { return ++num_rows > 0; });
    return num_rows;
  }

  store::MemoryMetaStore meta;
  MemoryClient client;
  SharedMap map;
  int64_t& now_us;
  std::unique_ptr<MemoryBook> book;
};

class SharedMemoryTest : public testing::Test {
 protected:
  std::string Collected(const Gateway& gateway) {
    std::string text;
    metrics::TextWriter writer(text);
    gateway.book->Collect(writer);
    return text;
  }

  int64_t now_us_ = 1'000'000'000'000;
  MemoryServer server_;
  const std::shared_ptr<const Keyring> ring_ = Keyring::Generate();
  Gateway a_{server_, ring_, now_us_};
  Gateway b_{server_, ring_, now_us_};
};

TEST_F(SharedMemoryTest, WhatOneSaysHoldsAtTheOtherAtOnce) {
  a_.Set("name", "\"Ann\"");
  a_.Set("lang", "\"en\"", {.tenant = "t"});
  EXPECT_EQ(b_.Has(), (Entries{{"name", "\"Ann\""}}));
  EXPECT_EQ(b_.book->Holding(kSession)->entries,
            (Entries{{"lang", "\"en\""}, {"name", "\"Ann\""}}));
  b_.Set("name", "\"Bea\"");
  EXPECT_EQ(a_.Has(), (Entries{{"name", "\"Bea\""}}));
  EXPECT_TRUE(b_.Has({.tenant = "u", .session = "s"}).empty());
  a_.Set("name", "null");
  EXPECT_TRUE(b_.Has().empty());
  // The switch too.
  ASSERT_TRUE(b_.book->Update(kSession, [](Memory& memory) {
    memory.retrieves = true;
    return Result<void>();
  }));
  EXPECT_EQ(a_.book->Holding(kSession)->retrieves, true);
}

TEST_F(SharedMemoryTest, ManyChangesAtOnceAreAllThere) {
  constexpr int kChanges = 25;
  std::vector<std::thread> threads;
  for (Gateway* gateway : {&a_, &b_}) {
    for (int thread = 0; thread < 2; ++thread) {
      threads.emplace_back([=, own = (gateway == &a_ ? "a" : "b") + std::to_string(thread)] {
        for (int i = 0; i < kChanges; ++i) {
          const auto set = gateway->book->Update(kSession, [&](Memory& memory) -> Result<void> {
            const Entry entry{.name = own, .value = std::to_string(i)};
            Apply({&entry, 1}, memory.entries);
            return {};
          });
          EXPECT_TRUE(set);
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(a_.Has().size(), 4u);
  EXPECT_EQ(a_.Has(), b_.Has());
  for (const Entry& entry : a_.Has()) EXPECT_EQ(entry.value, std::to_string(kChanges - 1));
}

// The other gateway is faster between the question and the answer.
TEST_F(SharedMemoryTest, AChangeIsMadeAnewOnWhatAFasterOneSaid) {
  a_.Set("n", "1");
  int calls = 0;
  const auto added = a_.book->Update(kSession, [&](Memory& memory) -> Result<void> {
    if (++calls == 1) b_.Set("n", "5");
    memory.entries[0].value = std::to_string(std::stoi(memory.entries[0].value) + 1);
    return {};
  });
  ASSERT_TRUE(added);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(a_.Has(), (Entries{{"n", "6"}}));
  EXPECT_EQ(b_.Has(), (Entries{{"n", "6"}}));
  EXPECT_NE(Collected(a_).find("kvgate_shared_memory_conflicts_total 1"), std::string::npos);
}

TEST_F(SharedMemoryTest, WhatWasChangedWhileTheStoreWasAwayIsSaidWhenItIsBack) {
  a_.Set("common", "1");
  a_.Set("gone", "1");
  EXPECT_EQ(b_.Has().size(), 2u);
  a_.client.is_down = true;
  a_.Set("from_a", "1");
  a_.Set("gone", "null");
  EXPECT_EQ(a_.Has(), (Entries{{"common", "1"}, {"from_a", "1"}}));
  b_.Set("from_b", "1");
  EXPECT_EQ(b_.Has().size(), 3u);
  a_.Open();  // it survives a restart
  a_.book->Exchange();
  EXPECT_NE(Collected(a_).find("kvgate_shared_memory_untold 1"), std::string::npos);
  a_.client.is_down = false;
  a_.book->Exchange();
  EXPECT_NE(Collected(a_).find("kvgate_shared_memory_untold 0"), std::string::npos);
  const Entries all{{"common", "1"}, {"from_b", "1"}, {"from_a", "1"}};
  EXPECT_EQ(b_.Has(), all);
  EXPECT_EQ(a_.Has(), all);
}

TEST_F(SharedMemoryTest, OfOneFactTheLaterChangeHoldsAlsoIfItIsToldFirst) {
  a_.Set("n", "1");
  a_.client.is_down = true;
  a_.Set("n", "2");
  b_.Set("n", "3");
  a_.client.is_down = false;
  a_.book->Exchange();
  EXPECT_EQ(a_.Has(), (Entries{{"n", "3"}}));
  EXPECT_EQ(b_.Has(), (Entries{{"n", "3"}}));
}

TEST_F(SharedMemoryTest, WhatWasRemovedDoesNotComeBack) {
  a_.Set("n", "1");
  a_.Set("m", "1");
  EXPECT_EQ(b_.Has().size(), 2u);
  a_.Set("n", "null");
  // A gateway that has not heard of it, and a store that has forgotten all.
  server_.Flush();
  EXPECT_EQ(b_.Has().size(), 2u);
  a_.book->Exchange();
  EXPECT_EQ(b_.Has(), (Entries{{"m", "1"}}));
  ASSERT_TRUE(b_.book->Remove(kSession));
  a_.Open();
  b_.Open();
  EXPECT_TRUE(a_.Has().empty());
  server_.Flush();
  a_.Open();
  a_.book->Exchange();
  EXPECT_TRUE(b_.Has().empty());
  // A fact that is said anew is there.
  a_.Set("n", "2");
  EXPECT_EQ(b_.Has(), (Entries{{"n", "2"}}));
}

TEST_F(SharedMemoryTest, AMemoryThatTheStoreForgotIsThereAgain) {
  a_.Set("n", "1");
  server_.Flush();
  EXPECT_TRUE(b_.Has().empty());
  EXPECT_EQ(a_.Has().size(), 1u);
  EXPECT_EQ(b_.Has(), (Entries{{"n", "1"}}));
}

TEST_F(SharedMemoryTest, AMemoryFromBeforeTheStoreWasSharedIsTold) {
  store::MemoryMetaStore meta;
  meta.SetKeyring(ring_);
  {
    auto alone = *MemoryBook::Open({.meta = meta});
    ASSERT_TRUE(alone->Update(kSession, [](Memory& memory) {
      memory.entries = {{"old", "1"}};
      return Result<void>();
    }));
  }
  auto shared = *MemoryBook::Open({.meta = meta, .shared = &a_.map});
  shared->Exchange();
  EXPECT_EQ(b_.Has(), (Entries{{"old", "1"}}));
}

// A command on the directory while its gateway does not run.
TEST_F(SharedMemoryTest, ARemovalWithoutTheStoreIsToldLater) {
  a_.Set("n", "1");
  EXPECT_EQ(b_.Has().size(), 1u);
  a_.book.reset();
  ASSERT_TRUE((*MemoryBook::Open({.meta = a_.meta}))->Remove(kSession));
  a_.Open();
  a_.book->Exchange();
  EXPECT_TRUE(b_.Has().empty());
  EXPECT_TRUE(a_.Has().empty());
}

TEST_F(SharedMemoryTest, WhatIsDamagedIsLeftOutAndHealedByWhoHasIt) {
  a_.Set("n", "1");
  const std::string key = a_.map.KeyOf({.tenant = "t", .name = "s"});
  std::string& value = server_.values.at(key);
  value.back() = static_cast<char>(value.back() ^ 1);
  EXPECT_TRUE(b_.Has().empty());
  EXPECT_NE(Collected(b_).find("reason=\"damaged\"} 1"), std::string::npos);
  EXPECT_EQ(b_.NumRows(), 0u);
  EXPECT_EQ(a_.Has(), (Entries{{"n", "1"}}));
  EXPECT_EQ(b_.Has(), (Entries{{"n", "1"}}));
  // Another place's value does not open here.
  a_.Set("m", "1", {.tenant = "u", .session = "s"});
  server_.values[key] = server_.values.at(a_.map.KeyOf({.tenant = "u", .name = "s"}));
  EXPECT_EQ(a_.Has(), (Entries{{"n", "1"}}));
}

TEST_F(SharedMemoryTest, AValueOfAMissingSecretStaysThere) {
  const std::string old_secret = Keyring::GenerateSecret();
  const auto ring_of = [](const std::string& text) {
    return std::shared_ptr<const Keyring>(*Keyring::Parse(text, "test"));
  };
  Gateway older(server_, ring_of(old_secret), now_us_);
  Gateway newer(server_, ring_of(Keyring::GenerateSecret() + "," + old_secret), now_us_);
  newer.Set("n", "1");
  older.Set("m", "1");
  EXPECT_EQ(older.Has(), (Entries{{"m", "1"}}));
  EXPECT_EQ(newer.Has(), (Entries{{"n", "1"}}));
  EXPECT_NE(Collected(older).find("reason=\"foreign\"} "), std::string::npos);
}

TEST_F(SharedMemoryTest, AnswersThatAreLostOrCommandsCarriedOutTwiceCountOnce) {
  a_.client.repeats = true;
  a_.Set("n", "1");
  a_.client.repeats = false;
  a_.client.loses_answers = true;
  a_.Set("n", "2");
  a_.client.loses_answers = false;
  a_.book->Exchange();
  EXPECT_EQ(a_.Has(), (Entries{{"n", "2"}}));
  EXPECT_EQ(b_.Has(), (Entries{{"n", "2"}}));
}

TEST_F(SharedMemoryTest, ADiskThatRefusesKeepsNoOneFromReading) {
  a_.Set("n", "1");
  b_.meta.refuses = true;
  EXPECT_EQ(b_.Has(), (Entries{{"n", "1"}}));
  b_.meta.refuses = false;
  EXPECT_EQ(b_.Has(), (Entries{{"n", "1"}}));
  EXPECT_EQ(b_.NumRows(), 1u);
}

}  // namespace
}  // namespace kvgate::session::memory
