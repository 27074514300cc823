#include "store/meta/turn_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "store/meta/rocks_meta_store.h"
#include "tests/store/memory_meta_store.h"
#include "tests/store/store_fixture.h"
#include "tests/wait_until.h"

namespace kvgate::store::meta {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kDayUs = int64_t{86'400} * 1'000'000;

PrefixDigest DigestOf(uint8_t value) {
  PrefixDigest digest;
  digest.bytes[0] = value;
  return digest;
}

struct TurnSpec {
  std::string id;
  std::string parent = {};
  std::string tenant = "t";
  std::string session = {};
  std::string payload = "{}";
  std::optional<PrefixDigest> content = {};
};

Turn Make(const TurnSpec& spec) {
  Turn turn;
  turn.id = spec.id;
  turn.parent = spec.parent;
  turn.tenant = spec.tenant;
  turn.session = spec.session;
  turn.items = {{.role = "user", .payload = "[" + spec.id + "]"},
                {.role = "assistant", .payload = spec.payload}};
  turn.tokens = {.input = 10, .cached = 8, .output = 2};
  turn.content = spec.content;
  return turn;
}

std::string IdsOf(const std::vector<Turn>& turns) {
  std::string ids;
  for (const Turn& turn : turns) ids += turn.id + " ";
  return ids;
}

// Opens with a fixed secret, so that another process can open the same database.
std::unique_ptr<MetaStore> OpenMeta(const std::filesystem::path& path) {
  auto meta = OpenRocksMetaStore({.directory = path}).value();
  meta->SetKeyring(
      Keyring::Parse("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "the test")
          .value());
  return meta;
}

// A turn store on a database of its own, with a clock that the test sets.
class TurnStoreTest : public ::testing::Test {
 protected:
  TurnStoreTest() { Reopen(); }

  void Reopen() {
    store_.reset();
    meta_.reset();
    meta_ = OpenMeta(directory_.path() / "meta");
    store_ = TurnStore::Open({.meta = *meta_,
                              .enabled = enabled_,
                              .retention = std::chrono::hours(24 * 30),
                              .bytes_max = bytes_max_,
                              .turn_bytes_max = 1 << 20,
                              .now_us = [this] { return now_us_.load(); }})
                 .value();
  }

  void Append(const TurnSpec& spec) {
    const auto done = store_->Append(Make(spec));
    ASSERT_TRUE(done) << spec.id << ": " << done.error().ToString();
  }
  std::string ChainOf(std::string_view id, std::string_view tenant = "t") {
    const auto chain = store_->Chain({.tenant = tenant, .id = id});
    return chain ? IdsOf(*chain) : fmt::format("{}", chain.error().detail);
  }
  bool Has(std::string_view id, std::string_view tenant = "t") {
    return store_->Get(tenant, id).has_value();
  }
  size_t CountRows(std::string_view prefix) {
    size_t count = 0;
    EXPECT_TRUE(meta_->Scan(MetaTable::kTurns, prefix,
                            [&](std::string_view, std::string_view) { return ++count > 0; }));
    return count;
  }
  // Checks that every row belongs to an existing turn, and that the sums match the turns.
  void CheckIntegrity();

  const TempFolder directory_;
  std::atomic<int64_t> now_us_{1'000 * kDayUs};
  uint64_t bytes_max_ = uint64_t{1} << 30;
  bool enabled_ = true;
  std::unique_ptr<MetaStore> meta_;
  std::unique_ptr<TurnStore> store_;
};

void TurnStoreTest::CheckIntegrity() {
  std::map<uint64_t, TurnConversation> conversations;
  std::map<std::string, size_t> wanted;
  uint64_t bytes = 0;
  std::set<std::string> rows;
  EXPECT_TRUE(meta_->Scan(MetaTable::kTurns, "", [&](std::string_view key, std::string_view value) {
    rows.emplace(key);
    if (key[0] != 't') return true;
    const auto decoded = DecodeTurn(key, value, meta_->keyring());
    EXPECT_TRUE(decoded);
    if (!decoded) return true;
    const TurnRecord* record = &decoded->record;
    const Turn& turn = record->turn;
    const TurnMember member = MemberOf(turn, TurnNames(meta_->keyring()), 0);
    TurnConversation& state = conversations[record->conversation];
    state.last_order = turn.order;
    state.bytes += key.size() + value.size();
    ++state.num_turns;
    bytes += key.size() + value.size();
    ++wanted[std::string(key)];
    ++wanted[TurnIdKey(member.tenant, member.id)];
    ++wanted[WithOrder(TurnMemberPrefix(record->conversation), turn.order)];
    if (!turn.session.empty()) {
      ++wanted[WithOrder(TurnSessionPrefix(member.tenant, *member.session), turn.order)];
    }
    if (turn.content) {
      ++wanted[WithOrder(TurnContentPrefix(member.tenant, *member.content), turn.order)];
    }
    return true;
  }));
  std::set<std::string> missing;
  for (const auto& [key, count] : wanted) {
    EXPECT_EQ(count, 1u) << "two turns share a row";
    EXPECT_EQ(rows.erase(key), 1u) << "a row is missing: " << key[0];
  }
  uint64_t num_turns = 0;
  for (const auto& [id, state] : conversations) {
    num_turns += state.num_turns;
    const auto value = meta_->Get(MetaTable::kTurns, TurnConversationKey(id)).value();
    ASSERT_TRUE(value);
    const auto stored = DecodeConversation(*value).value();
    EXPECT_EQ(stored.bytes, state.bytes);
    EXPECT_EQ(stored.num_turns, state.num_turns);
    rows.erase(TurnConversationKey(id));
    EXPECT_EQ(rows.erase(TurnAgeKey(stored.last_order)), 1u);
  }
  rows.erase("n");
  EXPECT_TRUE(rows.empty()) << rows.size() << " rows lead nowhere, as " << (*rows.begin())[0];
  const TurnStats stats = store_->Stats();
  EXPECT_EQ(stats.num_turns, num_turns);
  EXPECT_EQ(stats.num_conversations, conversations.size());
  EXPECT_EQ(stats.bytes, bytes);
}

TEST_F(TurnStoreTest, ATurnComesBackWithAllItsFieldsAlsoAfterReopening) {
  Turn turn = Make({.id = "resp_1", .session = "s", .content = DigestOf(1)});
  turn.items[1].payload = std::string("\0\xff{\"id\":18446744073709551615}", 30);
  ASSERT_TRUE(store_->Append(turn));
  turn.order = 1;
  turn.created_us = now_us_.load();
  EXPECT_EQ(store_->Get("t", "resp_1").value(), turn);
  Reopen();
  EXPECT_EQ(store_->Get("t", "resp_1").value(), turn);
  Append({.id = "resp_2", .parent = "resp_1"});
  EXPECT_GT(store_->Get("t", "resp_2").value().order, turn.order);
  EXPECT_EQ(ChainOf("resp_2"), "resp_1 resp_2 ");
  CheckIntegrity();
}

TEST_F(TurnStoreTest, TurnsThatAreAppendedTogetherAreAllThereOrNone) {
  Append({.id = "a"});
  const auto b = Make({.id = "b", .parent = "a"});
  EXPECT_FALSE(store_->AppendAll({b, Make({.id = "c", .parent = "nobody"})}));
  EXPECT_FALSE(store_->AppendAll({b, Make({.id = "another root"})}));
  EXPECT_FALSE(store_->AppendAll({b, b}));
  EXPECT_EQ(store_->Stats().num_turns, 1u);
  EXPECT_TRUE(store_->AppendAll({b, Make({.id = "c", .parent = "b"})}));
  EXPECT_EQ(ChainOf("c"), "a b c ");
  CheckIntegrity();
}

TEST_F(TurnStoreTest, WrongInputIsRefusedByTheFieldsName) {
  Append({.id = "a"});
  const auto check = [&](Turn turn, ErrorCode code, std::string_view field) {
    const auto done = store_->Append(std::move(turn));
    ASSERT_FALSE(done) << field;
    EXPECT_EQ(done.error().code, code) << field;
    EXPECT_EQ(done.error().field, field);
  };
  const std::string longer(kTurnTextMax + 1, 'x');
  check(Make({.id = longer}), ErrorCode::kInvalidArgument, "id");
  check(Make({.id = "a"}), ErrorCode::kInvalidArgument, "id");
  check(Make({.id = "b", .parent = "nobody"}), ErrorCode::kNotFound, "parent");
  check(Make({.id = "b", .parent = "b"}), ErrorCode::kNotFound, "parent");
  check(Make({.id = "b", .payload = std::string((1 << 20) + 1, 'x')}), ErrorCode::kTooLarge,
        "items");
  EXPECT_EQ(store_->List({.tenant = "t", .session = "s", .limit = 0}).error().field, "limit");
  EXPECT_EQ(store_->List({.tenant = "t", .session = "s", .limit = 1001}).error().field, "limit");
  EXPECT_FALSE(Has(longer));
  EXPECT_EQ(store_->Stats().num_turns, 1u);
  CheckIntegrity();
}

TEST_F(TurnStoreTest, AChainGoesFromTheFirstTurnAlongOneBranch) {
  Append({.id = "a"});
  Append({.id = "b", .parent = "a"});
  Append({.id = "c", .parent = "b"});
  Append({.id = "x", .parent = "a"});
  EXPECT_EQ(ChainOf("c"), "a b c ");
  EXPECT_EQ(ChainOf("x"), "a x ");
  EXPECT_EQ(ChainOf("a"), "a ");
  // Its reader may say where it begins; what is before that is not read.
  std::string asked;
  const auto is_first = [&asked](const Turn& turn) {
    asked += turn.id;
    return turn.id == "b";
  };
  EXPECT_EQ(IdsOf(store_->Chain({.tenant = "t", .id = "c", .is_first = is_first}).value()), "b c ");
  EXPECT_EQ(asked, "cb");
  EXPECT_EQ(store_->Chain({.tenant = "t", .id = "c", .turns_max = 3}).value().size(), 3u);
  EXPECT_EQ(store_->Chain({.tenant = "t", .id = "c", .turns_max = 2}).error().code,
            ErrorCode::kTooLarge);
  EXPECT_EQ(store_->Chain({.tenant = "t", .id = "c", .bytes_max = 15}).value().size(), 3u);
  EXPECT_EQ(store_->Chain({.tenant = "t", .id = "c", .bytes_max = 14}).error().code,
            ErrorCode::kTooLarge);
  EXPECT_EQ(store_->Stats().num_conversations, 1u);
}

TEST_F(TurnStoreTest, ADeletedTurnIsGoneAndChainsOverItFail) {
  Append({.id = "a"});
  Append({.id = "b", .parent = "a", .session = "s", .content = DigestOf(1)});
  Append({.id = "c", .parent = "b"});
  ASSERT_TRUE(store_->Delete("t", "b"));
  EXPECT_FALSE(Has("b"));
  EXPECT_TRUE(Has("c"));
  EXPECT_EQ(ChainOf("c"), "There is no turn 'b'.");
  EXPECT_EQ(store_->Delete("t", "b").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->Append(Make({.id = "d", .parent = "b"})).error().field, "parent");
  EXPECT_TRUE(store_->List({.tenant = "t", .session = "s"}).value().turns.empty());
  EXPECT_FALSE(store_->FindByContent("t", DigestOf(1)));
  // The id may be used again, but the new turn is not the parent of the old one's children.
  Append({.id = "b", .parent = "a"});
  EXPECT_EQ(ChainOf("b"), "a b ");
  EXPECT_EQ(ChainOf("c"), "There is no turn 'b'.");
  CheckIntegrity();
}

TEST_F(TurnStoreTest, ASessionIsListedNewestFirstPageByPage) {
  for (int i = 0; i < 10; ++i) {
    Append({.id = std::to_string(i), .session = i % 2 == 0 ? "even" : "odd"});
  }
  TurnStore::ListArgs args{.tenant = "t", .session = "even", .limit = 2};
  std::string seen;
  TurnPage page;
  do {
    page = store_->List(args).value();
    EXPECT_LE(page.turns.size(), 2u);
    seen += IdsOf(page.turns) + "| ";
    args.before = page.turns.back().order;
  } while (page.has_more);
  EXPECT_EQ(seen, "8 6 | 4 2 | 0 | ");
  // A page is also bounded in bytes, but never empty.
  const auto small =
      store_->List({.tenant = "t", .session = "odd", .limit = 50, .bytes_max = 1}).value();
  EXPECT_EQ(IdsOf(small.turns), "9 ");
  EXPECT_TRUE(small.has_more);
  EXPECT_TRUE(store_->List({.tenant = "t", .session = "eve"}).value().turns.empty());
}

TEST_F(TurnStoreTest, AConversationIsListedAndPurgedByAnyOfItsTurns) {
  Append({.id = "a"});
  Append({.id = "other"});
  for (int i = 0; i < 300; ++i) Append({.id = "b" + std::to_string(i), .parent = "a"});
  EXPECT_EQ(store_->FirstOf("t", "b7")->id, "a");
  const TurnStore::ListArgs args{.tenant = "t", .conversation_of = "b7", .limit = 2};
  EXPECT_EQ(IdsOf(store_->List(args)->turns), "b299 b298 ");
  EXPECT_EQ(store_->PurgeConversation("another", "a").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store_->PurgeConversation("t", "b7"), 301u);
  EXPECT_EQ(store_->List(args).error().code, ErrorCode::kNotFound);
  CheckIntegrity();
}

TEST_F(TurnStoreTest, ContentFindsTheNewestTurnThatHasIt) {
  Append({.id = "a", .content = DigestOf(1)});
  Append({.id = "b", .content = DigestOf(1)});
  Append({.id = "c", .content = DigestOf(2)});
  EXPECT_EQ(store_->FindByContent("t", DigestOf(1)).value().id, "b");
  ASSERT_TRUE(store_->Delete("t", "b"));
  EXPECT_EQ(store_->FindByContent("t", DigestOf(1)).value().id, "a");
  EXPECT_EQ(store_->FindByContent("t", DigestOf(3)).error().code, ErrorCode::kNotFound);
}

TEST_F(TurnStoreTest, AnotherTenantsTurnIsAsIfItWereNotThere) {
  Append({.id = "a", .tenant = "one", .session = "s", .content = DigestOf(1)});
  for (const std::string_view other : {"two", "", "on", "onee"}) {
    EXPECT_EQ(store_->Get(other, "a").error().code, ErrorCode::kNotFound);
    EXPECT_EQ(store_->Chain({.tenant = other, .id = "a"}).error().code, ErrorCode::kNotFound);
    EXPECT_TRUE(store_->List({.tenant = other, .session = "s"}).value().turns.empty());
    EXPECT_FALSE(store_->FindByContent(other, DigestOf(1)));
    EXPECT_EQ(store_->Delete(other, "a").error().code, ErrorCode::kNotFound);
    EXPECT_EQ(store_->PurgeTenant(other).value(), 0u);
    EXPECT_EQ(store_->PurgeSession(other, "s").value(), 0u);
    EXPECT_EQ(store_->Append(Make({.id = "b", .parent = "a", .tenant = std::string(other)}))
                  .error()
                  .field,
              "parent");
  }
  Append({.id = "a", .tenant = "two", .payload = "another"});
  EXPECT_EQ(store_->Get("two", "a").value().items[1].payload, "another");
  EXPECT_EQ(store_->Get("one", "a").value().items[1].payload, "{}");
  CheckIntegrity();
}

TEST_F(TurnStoreTest, PurgesTakeATenantOrASessionAndNothingElse) {
  for (int i = 0; i < 600; ++i) {  // more than one write batch holds
    Append({.id = fmt::format("a{}", i),
            .parent = i % 3 == 0 ? "" : fmt::format("a{}", i - 1),
            .tenant = "one",
            .session = i % 2 == 0 ? "s" : "r",
            .content = DigestOf(static_cast<uint8_t>(i))});
  }
  Append({.id = "b", .tenant = "two", .session = "s"});
  EXPECT_EQ(store_->PurgeSession("one", "s").value(), 300u);
  EXPECT_FALSE(Has("a0", "one"));
  EXPECT_TRUE(Has("a1", "one"));
  EXPECT_TRUE(Has("b", "two"));
  CheckIntegrity();
  EXPECT_EQ(store_->PurgeTenant("one").value(), 300u);
  EXPECT_TRUE(Has("b", "two"));
  CheckIntegrity();
  EXPECT_EQ(store_->PurgeTenant("two").value(), 1u);
  EXPECT_EQ(CountRows(""), 1u) << "the sums alone are left";
  EXPECT_EQ(store_->Stats().num_deleted, 601u);
}

TEST_F(TurnStoreTest, ConversationsGoAsAWholeWhenTheyHaveBeenSilentForTheRetention) {
  Append({.id = "old"});
  Append({.id = "kept"});
  now_us_ += 20 * kDayUs;
  Append({.id = "kept2", .parent = "kept"});
  now_us_ += 10 * kDayUs + 1;
  EXPECT_EQ(store_->Retire().value(), 1u);
  EXPECT_FALSE(Has("old"));
  EXPECT_EQ(ChainOf("kept2"), "kept kept2 ");
  EXPECT_EQ(store_->Stats().num_retired, 1u);
  now_us_ += 20 * kDayUs;
  Reopen();  // which drops old conversations at once
  EXPECT_EQ(store_->Stats().num_turns, 0u);
  CheckIntegrity();
}

TEST_F(TurnStoreTest, AThreadDropsWhatHasBecomeTooOld) {
  store_.reset();
  store_ = TurnStore::Open({.meta = *meta_,
                            .retention = std::chrono::hours(24),
                            .retire_interval = std::chrono::milliseconds(10),
                            .now_us = [this] { return now_us_.load(); }})
               .value();
  Append({.id = "a"});
  now_us_ += 2 * kDayUs;
  EXPECT_TRUE(
      test::WaitUntil([&] { return store_->Stats().num_turns == 0; }, "the turn is retired"));
}

TEST_F(TurnStoreTest, TheThreadGoesOnWhereThereWasNoMemory) {
  MemoryMetaStore meta;
  store_ = TurnStore::Open({.meta = meta,
                            .retention = std::chrono::hours(24),
                            .retire_interval = std::chrono::milliseconds(1),
                            .now_us = [this] { return now_us_.load(); }})
               .value();
  Append({.id = "a"});
  meta.has_no_memory = true;
  now_us_ += 2 * kDayUs;
  EXPECT_TRUE(test::WaitUntil([&] { return meta.num_refused >= 3; }, "it was tried three times"));
  EXPECT_EQ(store_->Stats().num_turns, 1u);
  meta.has_no_memory = false;
  EXPECT_TRUE(
      test::WaitUntil([&] { return store_->Stats().num_turns == 0; }, "the turn is retired"));
  store_.reset();
}

TEST_F(TurnStoreTest, AClockThatWasAheadKeepsOnlyItsOwn) {
  now_us_ += 1'000 * kDayUs;
  Append({.id = "ahead"});
  now_us_ -= 1'000 * kDayUs;
  Append({.id = "now"});
  now_us_ += 31 * kDayUs;
  EXPECT_EQ(store_->Retire().value(), 1u);
  EXPECT_TRUE(Has("ahead"));
  EXPECT_FALSE(Has("now"));
}

TEST_F(TurnStoreTest, WhoHasMoreThanItsShareMakesRoomBeforeOthersDo) {
  bytes_max_ = 100'000;
  Reopen();
  const std::string payload(9'000, 'x');
  for (int i = 0; i < 3; ++i) {
    Append({.id = fmt::format("b{}", i), .tenant = "bob", .payload = payload});
  }
  for (const bool reopens : {false, true}) {
    if (reopens) Reopen();  // each tenant's share is also known after a restart
    for (int i = 0; i < 40; ++i) {
      Append({.id = fmt::format("a{}-{}", reopens, i), .tenant = "alice", .payload = payload});
    }
    EXPECT_LE(store_->Stats().bytes, bytes_max_);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(Has(fmt::format("b{}", i), "bob"));
    EXPECT_TRUE(Has(fmt::format("a{}-39", reopens), "alice"));
    CheckIntegrity();
  }
  // If no tenant exceeds its share, the oldest conversations go, whoever owns them.
  ASSERT_TRUE(store_->PurgeTenant("alice"));
  for (int i = 0; i < 4; ++i) {
    Append({.id = fmt::format("c{}", i), .tenant = "carol", .payload = payload});
    Append({.id = fmt::format("d{}", i), .tenant = "dave", .payload = payload});
  }
  EXPECT_FALSE(Has("b0", "bob"));
  EXPECT_TRUE(Has("c3", "carol"));
  CheckIntegrity();
}

TEST_F(TurnStoreTest, OneLongConversationDoesNotPushOutOthers) {
  bytes_max_ = 100'000;
  Reopen();
  const std::string payload(9'000, 'x');
  for (int i = 0; i < 4; ++i) {
    Append({.id = fmt::format("b{}", i), .tenant = "bob", .payload = payload});
  }
  Append({.id = "a0", .tenant = "alice", .payload = payload});
  Result<void> done;
  int length = 1;
  for (; done && length < 20; ++length) {
    done = store_->Append(Make({.id = fmt::format("a{}", length),
                                .parent = fmt::format("a{}", length - 1),
                                .tenant = "alice",
                                .payload = payload}));
  }
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kTooLarge);
  EXPECT_THAT(done.error().detail, HasSubstr("store.tenant_share"));
  EXPECT_GE(length, 5);  // a tenant always gets its own share
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Has(fmt::format("b{}", i), "bob"));
  CheckIntegrity();
}

TEST_F(TurnStoreTest, BeyondItsBytesTheConversationThatIsSilentLongestGoes) {
  bytes_max_ = 100'000;
  Reopen();
  const std::string payload(9'000, 'x');
  Append({.id = "a", .payload = payload});
  Append({.id = "b", .payload = payload});
  Append({.id = "a2", .parent = "a", .payload = payload});
  for (int i = 0; i < 8; ++i) Append({.id = fmt::format("c{}", i), .payload = payload});
  EXPECT_FALSE(Has("b"));
  EXPECT_EQ(ChainOf("a2"), "a a2 ");
  EXPECT_LE(store_->Stats().bytes, bytes_max_);
  for (int i = 0; i < 100; ++i) Append({.id = fmt::format("d{}", i), .payload = payload});
  EXPECT_LE(store_->Stats().bytes, bytes_max_);
  EXPECT_TRUE(Has("d99"));
  EXPECT_FALSE(Has("a"));
  CheckIntegrity();
  // A conversation that exceeds the limit by itself is refused, without cost to the others.
  std::string parent = "d99";
  Result<void> done;
  for (int i = 0; done; ++i) {
    ASSERT_LT(i, 20);
    const std::string id = fmt::format("e{}", i);
    done = store_->Append(Make({.id = id, .parent = parent, .payload = payload}));
    if (done) parent = id;
  }
  EXPECT_EQ(done.error().code, ErrorCode::kTooLarge);
  EXPECT_THAT(done.error().detail, HasSubstr("store.turns_bytes"));
  EXPECT_THAT(ChainOf(parent), HasSubstr("d99 e0 "));
  bytes_max_ = 30'000;
  Reopen();
  EXPECT_LE(store_->Stats().bytes, bytes_max_);
  CheckIntegrity();
}

TEST_F(TurnStoreTest, SwitchedOffNothingIsWrittenAndWhatIsThereCanGo) {
  Append({.id = "a"});
  enabled_ = false;
  Reopen();
  const auto done = store_->Append(Make({.id = "b"}));
  EXPECT_EQ(done.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(done.error().detail, HasSubstr("store.turns"));
  EXPECT_TRUE(Has("a"));
  EXPECT_FALSE(store_->Stats().enabled);
  EXPECT_EQ(store_->PurgeTenant("t").value(), 1u);
  CheckIntegrity();
}

TEST_F(TurnStoreTest, ADamagedTurnIsDroppedAndNothingElseIsDisturbed) {
  Append({.id = "a", .session = "s", .content = DigestOf(1)});
  Append({.id = "b", .parent = "a", .session = "s", .content = DigestOf(2)});
  Append({.id = "c", .parent = "b", .session = "s", .content = DigestOf(3)});
  const auto damage = [&](uint64_t order) {
    std::string value = meta_->Get(MetaTable::kTurns, TurnKey(order)).value().value();
    value[value.size() / 2] = static_cast<char>(value[value.size() / 2] ^ 4);
    ASSERT_TRUE(meta_->Put(MetaTable::kTurns, TurnKey(order), value));
  };
  damage(2);
  EXPECT_EQ(IdsOf(store_->List({.tenant = "t", .session = "s"}).value().turns), "c a ");
  EXPECT_EQ(store_->Stats().num_damaged, 1u);
  EXPECT_FALSE(Has("b"));
  EXPECT_FALSE(store_->FindByContent("t", DigestOf(2)));
  EXPECT_EQ(ChainOf("c"), "There is no turn 'b'.");
  EXPECT_EQ(ChainOf("a"), "a ");
  CheckIntegrity();
  Append({.id = "b", .parent = "a"});
  EXPECT_EQ(ChainOf("b"), "a b ");
  damage(3);
  EXPECT_EQ(store_->FindByContent("t", DigestOf(3)).error().code, ErrorCode::kNotFound);
  damage(4);
  EXPECT_EQ(ChainOf("b"), "There is no turn 'b'.");
  damage(1);
  EXPECT_FALSE(Has("a"));
  EXPECT_EQ(store_->Stats().num_damaged, 4u);
  CheckIntegrity();
}

TEST_F(TurnStoreTest, SumsThatCannotBeReadAreCountedAgain) {
  for (int i = 0; i < 5; ++i) Append({.id = std::to_string(i)});
  for (const std::string_view sums : {"", "nonsense"}) {
    ASSERT_TRUE(meta_->Put(MetaTable::kTurns, "n", sums));
    Reopen();
    CheckIntegrity();
  }
  Append({.id = "next"});
  EXPECT_EQ(store_->Get("t", "next").value().order, 6u);
}

TEST_F(TurnStoreTest, RandomOperationsAgreeWithAModel) {
  std::mt19937 random(11);
  struct Known {
    std::string parent;
    std::string session;
  };
  std::map<std::pair<std::string, std::string>, Known> known;  // by tenant and id
  std::vector<std::pair<std::string, std::string>> used;
  for (int i = 0; i < 2000; ++i) {
    const std::string tenant(1, static_cast<char>('A' + random() % 3));
    const int action = static_cast<int>(random() % 100);
    if (action < 60 || used.empty()) {
      const std::string id = std::to_string(random() % 400);
      const std::string parent = random() % 3 == 0 ? "" : std::to_string(random() % 400);
      const std::string session = std::to_string(random() % 5);
      const bool fits =
          !known.contains({tenant, id}) && (parent.empty() || known.contains({tenant, parent}));
      EXPECT_EQ(store_
                    ->Append(Make({.id = id,
                                   .parent = parent,
                                   .tenant = tenant,
                                   .session = session,
                                   .content = DigestOf(static_cast<uint8_t>(random() % 50))}))
                    .has_value(),
                fits);
      if (fits) known[{tenant, id}] = {parent, session};
      used.emplace_back(tenant, id);
    } else if (action < 80) {
      const auto key = used[random() % used.size()];
      EXPECT_EQ(store_->Delete(key.first, key.second).has_value(), known.erase(key) == 1);
    } else if (action < 98) {
      const auto key = used[random() % used.size()];
      const auto turn = store_->Get(key.first, key.second);
      ASSERT_EQ(turn.has_value(), known.contains(key));
      EXPECT_EQ(turn ? turn->parent : "", known.contains(key) ? known[key].parent : "");
    } else if (action == 98) {
      const size_t num_purged = std::erase_if(known, [&](const auto& row) {
        return row.first.first == tenant && row.second.session == "1";
      });
      EXPECT_EQ(store_->PurgeSession(tenant, "1").value(), num_purged);
    } else {
      Reopen();
    }
  }
  CheckIntegrity();
}

TEST_F(TurnStoreTest, EightThreadsAppendAndReadAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> num_failures{0};
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      const std::string tenant = fmt::format("tenant{}", thread % 3);
      std::string parent;
      for (int i = 0; i < 100; ++i) {
        const std::string id = fmt::format("{}-{}", thread, i);
        bool well = store_
                        ->Append(Make({.id = id,
                                       .parent = parent,
                                       .tenant = tenant,
                                       .session = "shared",
                                       .content = DigestOf(static_cast<uint8_t>(i))}))
                        .has_value();
        const auto chain = store_->Chain({.tenant = tenant, .id = id});
        well = well && chain && chain->size() == static_cast<size_t>(i + 1);
        well = well && store_->List({.tenant = tenant, .session = "shared"}).has_value();
        if (!well) ++num_failures;
        parent = id;
      }
    });
  }
  std::thread remover([&] {
    for (int i = 0; i < 50; ++i) {
      (void)store_->Append(Make({.id = "gone", .tenant = "else"}));
      if (!store_->PurgeTenant("else")) ++num_failures;
    }
  });
  for (std::thread& thread : threads) thread.join();
  remover.join();
  EXPECT_EQ(num_failures.load(), 0);
  EXPECT_EQ(store_->Stats().num_turns, 800u);
  EXPECT_EQ(store_->Stats().num_conversations, 8u);
  CheckIntegrity();
}

// Appends and deletes turns, and notes in DIR/notes what it did.
TEST(TurnStoreChild, WritesUntilItIsKilled) {
  const char* path = std::getenv(kChildVariable);
  if (path == nullptr) GTEST_SKIP() << "runs as a child of the crash test only";
  const auto meta = OpenMeta(std::filesystem::path(path) / "meta");
  const auto store = TurnStore::Open({.meta = *meta}).value();
  std::ofstream notes(std::filesystem::path(path) / "notes", std::ios::app);
  std::mt19937 random(static_cast<unsigned>(::getpid()));
  std::string parent;
  for (int i = 0;; ++i) {
    const std::string id = fmt::format("{}-{}", ::getpid(), i);
    const std::string payload(1 + random() % 100'000, static_cast<char>('a' + i % 26));
    if (!store->Append(Make({.id = id,
                             .parent = parent,
                             .session = "s",
                             .payload = payload,
                             .content = DigestOf(static_cast<uint8_t>(i))}))) {
      ::_exit(3);
    }
    notes << "+ " << id << ' ' << payload.size() << ' ' << payload[0] << std::endl;
    parent = id;
    if (random() % 4 != 0) continue;
    notes << "- " << id << " 0 x" << std::endl;  // from here on the turn may be gone
    if (!store->Delete("t", id)) ::_exit(4);
    parent = "";
  }
}

TEST_F(TurnStoreTest, AKillAtAnyMomentLeavesWholeTurnsOrNone) {
  std::mt19937 random(3);
  size_t num_checked = 0;
  for (int round = 0; round < 12; ++round) {
    store_.reset();
    meta_.reset();
    const auto size_of_notes = [&] {
      std::error_code missing;
      const auto size = std::filesystem::file_size(directory_.path() / "notes", missing);
      return missing ? uintmax_t{0} : size;
    };
    const auto before = size_of_notes();
    {
      ChildProcess child("TurnStoreChild.WritesUntilItIsKilled", directory_.path());
      ASSERT_TRUE(test::WaitUntil([&] { return size_of_notes() > before; }, "the child writes"));
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
      child.Kill();
    }
    now_us_ = 0;  // disables retention
    Reopen();
    std::ifstream file(directory_.path() / "notes");
    std::map<std::string, std::string> there;
    std::string sign, id, first;
    size_t size = 0;
    while (file >> sign >> id >> size >> first) {
      if (sign == "-") there.erase(id);
      if (sign == "+") there[id] = std::string(size, first[0]);
    }
    for (const auto& [known, payload] : there) {
      const auto turn = store_->Get("t", known);
      ASSERT_TRUE(turn) << known;
      ASSERT_EQ(turn->items[1].payload, payload);
      ++num_checked;
    }
    CheckIntegrity();
  }
  EXPECT_GT(num_checked, 100u);
}

}  // namespace
}  // namespace kvgate::store::meta
