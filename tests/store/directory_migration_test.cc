#include "store/directory_migration.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/digest.h"
#include "store/kv/kv_format.h"
#include "store/meta/pin_format.h"
#include "store/meta/rocks_meta_store.h"
#include "store/meta/turn_store.h"
#include "tests/store/store_fixture.h"

namespace kvgate::store {

using file::AppendValue;
using meta::MetaStore;
using meta::MetaTable;

namespace {

// A meta store whose process is killed before its n-th write.
class KilledMetaStore final : public MetaStore {
 public:
  KilledMetaStore(MetaStore& inner, int num_writes) : inner_(inner), left_(num_writes) {}

  Result<void> PutAll(MetaTable table, std::span<const meta::MetaWrite> writes) override {
    if (left_-- <= 0) return Killed();
    return inner_.PutAll(table, writes);
  }
  Result<std::optional<std::string>> Get(MetaTable table, std::string_view key) const override {
    return inner_.Get(table, key);
  }
  Result<void> ScanFrom(MetaTable table, const ScanArgs& args, const Visit& visit) const override {
    return inner_.ScanFrom(table, args, visit);
  }
  Result<void> ScanBack(MetaTable table, const ScanBackArgs& args,
                        const Visit& visit) const override {
    return inner_.ScanBack(table, args, visit);
  }
  const Keyring& keyring() const override { return inner_.keyring(); }

 private:
  static Error Killed() { return MakeError(ErrorCode::kIo, "test", "killed"); }
  MetaStore& inner_;
  int left_;
};

// Encodes a value as format 1 did: the same body, unsealed.
std::string InClear(const file::SealedKind& kind, const Keyring& ring, std::string_view key,
                    std::string_view value) {
  std::string clear;
  AppendValue(clear, kind.magic);
  AppendValue(clear, kind.clear_version);
  AppendValue(clear, uint16_t{0});
  clear += file::Unseal(kind, ring, key, value).value().body;
  std::string out;
  AppendValue(out, Xxh3(file::AsBytes(clear), Xxh3(file::AsBytes(key)).first).first);
  return out + clear;
}

class DirectoryMigrationTest : public ::testing::Test {
 protected:
  static constexpr int kNumTurns = 150;  // takes several steps to migrate

  void SetUp() override {
    meta_ = meta::OpenRocksMetaStore({.directory = directory_.path() / "meta"}).value();
    const auto turns = meta::TurnStore::Open({.meta = *meta_}).value();
    for (int i = 0; i < kNumTurns; ++i) {
      meta::Turn turn;
      turn.id = IdOf(i);
      turn.parent = i % 3 == 0 ? "" : IdOf(i - 1);
      turn.tenant = TenantOf(i);
      turn.session = i % 3 == 0 ? "a session" : "";
      turn.items = {{.role = "user", .payload = "the words of " + IdOf(i)}};
      if (i % 2 == 0) turn.content = PrefixDigest{.bytes = {static_cast<uint8_t>(i)}};
      ASSERT_TRUE(turns->Append(std::move(turn)));
    }
    meta::Pin pin;
    pin.leaf = {{1, 2}, {3, 4}};
    pin.name = "agent";
    pin.tenant = "t";
    pin.tokens = {1, 2, 3};
    const std::string key = kv::EncodeKvKey(pin.leaf);
    ASSERT_TRUE(meta_->Put(MetaTable::kPins, key,
                           InClear(file::kPinKind, Ring(), key, meta::EncodePin(pin, Ring()))));
  }

  static std::string IdOf(int i) { return "resp_" + std::to_string(i); }
  static std::string TenantOf(int i) { return i / 3 % 2 == 0 ? "alice" : ""; }
  const Keyring& Ring() const { return meta_->keyring(); }

  std::vector<std::pair<std::string, std::string>> Rows(std::string_view prefix) const {
    std::vector<std::pair<std::string, std::string>> rows;
    EXPECT_TRUE(meta_->Scan(MetaTable::kTurns, prefix, [&](auto key, auto value) {
      rows.emplace_back(key, value);
      return true;
    }));
    return rows;
  }

  void PutRow(const std::string& key, const std::string& value) {
    ASSERT_TRUE(meta_->Put(MetaTable::kTurns, key, value));
  }

  // Rewrites the turns and their rows as format 1 had them.
  void MakeOld() {
    uint64_t bytes_less = 0;
    std::map<uint64_t, uint64_t> of_conversation;
    for (const auto& [key, value] : Rows("t")) {
      const meta::TurnRecord record = meta::DecodeTurn(key, value, Ring()).value().record;
      const std::string old = InClear(file::kTurnKind, Ring(), key, value);
      bytes_less += value.size() - old.size();
      of_conversation[record.conversation] += value.size() - old.size();
      PutRow(key, old);
      const std::string place = meta::EncodePlace({record.turn.order, record.conversation});
      PutRow("i" + record.turn.tenant + "/" + record.turn.id, place);
      PutRow(meta::WithOrder("c" + record.turn.tenant, record.turn.order), place);
      PutRow(meta::WithOrder(meta::WithOrder("m", record.conversation), record.turn.order), "old");
    }
    for (const char* prefix : {"I", "S", "C", "M"}) {
      for (const auto& [key, value] : Rows(prefix)) {
        ASSERT_TRUE(meta_->Delete(MetaTable::kTurns, key));
      }
    }
    for (const auto& [conversation, less] : of_conversation) {
      const std::string key = meta::TurnConversationKey(conversation);
      auto state = meta::DecodeConversation(*meta_->Get(MetaTable::kTurns, key).value()).value();
      state.bytes -= less;
      PutRow(key, meta::EncodeConversation(state));
    }
    auto totals = meta::DecodeTotals(*meta_->Get(MetaTable::kTurns, "n").value()).value();
    totals.bytes -= bytes_less;
    PutRow("n", meta::EncodeTotals(totals));
  }

  // Checks that every turn is found by its id and content, and that all sums are right.
  void CheckTurns(int missing = -1) {
    const auto turns = meta::TurnStore::Open({.meta = *meta_}).value();
    for (int i = 0; i < kNumTurns; ++i) {
      const auto turn = turns->Get(TenantOf(i), IdOf(i));
      ASSERT_EQ(turn.has_value(), i != missing) << i;
      if (!turn) continue;
      EXPECT_EQ(turn->items[0].payload, "the words of " + IdOf(i));
      EXPECT_FALSE(turns->Get("bob", IdOf(i)));
      if (turn->content) {
        EXPECT_TRUE(turns->FindByContent(TenantOf(i), *turn->content));
      }
      if (missing < 0) {
        EXPECT_EQ(turns->Chain({.tenant = TenantOf(i), .id = IdOf(i)}).value().size(),
                  static_cast<size_t>(i % 3 + 1));
      }
    }
    EXPECT_EQ(turns->List({.tenant = "alice", .session = "a session"}).value().turns.size(), 25u);
    uint64_t bytes = 0;
    std::map<uint64_t, uint64_t> of_conversation;
    for (const auto& [key, value] : Rows("t")) {
      const auto record = meta::DecodeTurn(key, value, Ring()).value();
      EXPECT_FALSE(record.was_clear);
      bytes += key.size() + value.size();
      of_conversation[record.record.conversation] += key.size() + value.size();
    }
    EXPECT_EQ(turns->Stats().bytes, bytes);
    EXPECT_EQ(turns->Stats().num_turns, Rows("t").size());
    EXPECT_EQ(turns->Stats().num_conversations, of_conversation.size());
    for (const auto& [conversation, sum] : of_conversation) {
      const auto state =
          meta_->Get(MetaTable::kTurns, meta::TurnConversationKey(conversation)).value();
      ASSERT_TRUE(state);
      EXPECT_EQ(meta::DecodeConversation(*state)->bytes, sum);
    }
    EXPECT_EQ(Rows("M").size(), Rows("t").size());
    EXPECT_EQ(Rows("I").size(), Rows("t").size());
    for (const char* prefix : {"i", "s", "c", "m"}) EXPECT_TRUE(Rows(prefix).empty()) << prefix;
  }

  const TempFolder directory_;
  std::unique_ptr<MetaStore> meta_;
};

TEST_F(DirectoryMigrationTest, TurnsAndPinsOfFormat1AreSealedAndFound) {
  MakeOld();
  MigrationReport report;
  ASSERT_TRUE(MigrateTurns(*meta_, report));
  ASSERT_TRUE(MigratePins(*meta_, report));
  EXPECT_EQ(report.num_turns, static_cast<uint64_t>(kNumTurns));
  EXPECT_EQ(report.num_conversations, 50u);
  EXPECT_EQ(report.num_pins, 1u);
  EXPECT_EQ(report.num_turns_damaged + report.num_turns_foreign, 0u);
  CheckTurns();
  const std::string key = kv::EncodeKvKey({{1, 2}, {3, 4}});
  const auto pin = meta_->Get(MetaTable::kPins, key).value();
  EXPECT_EQ(meta::DecodePin(key, *pin, Ring()).value().tokens, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_FALSE(file::Unseal(file::kPinKind, Ring(), key, *pin).value().was_clear);
}

TEST_F(DirectoryMigrationTest, KilledBeforeAnyOfItsWritesItIsFinishedByTheNextOne) {
  int num_kills = 0;
  for (int num_writes = 0;; ++num_writes) {
    MakeOld();
    KilledMetaStore killed(*meta_, num_writes);
    MigrationReport report;
    const bool done = MigrateTurns(killed, report).has_value();
    num_kills += done ? 0 : 1;
    MigrationReport again;
    ASSERT_TRUE(MigrateTurns(*meta_, again));
    CheckTurns();
    if (HasFailure() || done) break;
  }
  EXPECT_GE(num_kills, 3);
}

TEST_F(DirectoryMigrationTest, ADamagedTurnGoesAndNothingElse) {
  MakeOld();
  auto rows = Rows("t");
  rows[2].second.back() = static_cast<char>(rows[2].second.back() ^ 1);
  PutRow(rows[2].first, rows[2].second);
  MigrationReport report;
  ASSERT_TRUE(MigrateTurns(*meta_, report));
  EXPECT_EQ(report.num_turns_damaged, 1u);
  EXPECT_EQ(report.num_turns, static_cast<uint64_t>(kNumTurns) - 1);
  CheckTurns(2);
}

TEST_F(DirectoryMigrationTest, WhatIsAsItShouldBeIsNotWritten) {
  KilledMetaStore killed(*meta_, 0);
  MigrationReport report;
  ASSERT_TRUE(MigrateTurns(killed, report));
  EXPECT_EQ(report.num_turns, 0u);
}

TEST_F(DirectoryMigrationTest, UnderAnotherSecretRowsAreNamedAnewWhereTheyOpen) {
  auto ring = Keyring::Generate();
  ring->AddForOpening(Ring());
  meta_->SetKeyring(std::move(ring));
  MigrationReport report;
  ASSERT_TRUE(MigrateTurns(*meta_, report));
  EXPECT_EQ(report.num_turns, static_cast<uint64_t>(kNumTurns));
  CheckTurns();
  // Under a secret that opens none of the rows, they stay and count as absent.
  const auto before = Rows("");
  meta_->SetKeyring(Keyring::Generate());
  MigrationReport foreign;
  ASSERT_TRUE(MigrateTurns(*meta_, foreign));
  EXPECT_EQ(foreign.num_turns_foreign, static_cast<uint64_t>(kNumTurns));
  EXPECT_EQ(Rows(""), before);
  const auto turns = meta::TurnStore::Open({.meta = *meta_}).value();
  EXPECT_EQ(turns->Get(TenantOf(0), IdOf(0)).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvgate::store
