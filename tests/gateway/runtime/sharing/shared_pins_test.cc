#include "gateway/runtime/sharing/shared_pins.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/digest.h"
#include "store/rocks_data_directory.h"
#include "tests/base/temp_folder.h"
#include "tests/manual_clock.h"
#include "tests/store/memory_meta_store.h"
#include "tests/store/shared/memory_client.h"

namespace kvgate::runtime::sharing {
namespace {

using store::meta::Pin;
using store::meta::PinBook;
using store::shared::MemoryClient;
using store::shared::MemoryServer;
using store::shared::SharedMap;

constexpr const char* kSecretEnv = "KVGATE_SHARED_PINS_TEST_SECRET";
constexpr Fingerprint kModel{.low = 1, .high = 1};

std::vector<TokenId> Tokens(int first, size_t count = 64) {
  std::vector<TokenId> tokens(count, first);
  return tokens;
}

// A gateway with a data directory, hashes and numerics of its own.
class Gateway {
 public:
  Gateway(MemoryServer& server, uint64_t number, Fingerprint model = kModel,
          size_t value_bytes_max = size_t{1} << 20)
      : client(server), number_(number), model_(model), value_bytes_max_(value_bytes_max) {
    static const std::string secret = Keyring::GenerateSecret();
    setenv(kSecretEnv, secret.c_str(), 1);
    Open();
  }
  void Open() {
    shared.reset();
    map_.reset();
    data_.reset();
    auto opened = store::DataDirectory::Open({.directory = folder_.path(),
                                              .kv_bytes_max = uint64_t{32} << 20,
                                              .secret_env = kSecretEnv});
    ASSERT_TRUE(opened) << opened.error().ToString();
    data_ = *std::move(opened);
    map_ = std::make_unique<SharedMap>(
        SharedMap::Options{.kind = "pins", .value_bytes_max = value_bytes_max_, .is_listed = true},
        client, data_->keyring());
    shared = std::make_unique<SharedPins>(
        SharedPins::Options{},
        SharedPins::Parts{.map = *map_,
                          .pins = data_->pins(),
                          .ring = data_->keyring(),
                          .kv_fingerprint = numerics(),
                          .model_fingerprint = model_,
                          .leaf_of = [this](const Pin& pin) { return LeafOf(pin.tokens); },
                          .on_pinned = [this](const Pin& pin) { pinned.push_back(pin); },
                          .on_unpinned = [this](const Pin& pin) { unpinned.push_back(pin); }});
  }

  Pin PinOf(int first, const std::string& name = {}, const std::string& tenant = "alice") {
    Pin pin;
    pin.tokens = Tokens(first);
    pin.leaf = LeafOf(pin.tokens);
    pin.model = model_;
    pin.name = name;
    pin.tenant = tenant;
    return pin;
  }
  void Put(const Pin& pin) {
    const auto put = pins().Put(pin);
    EXPECT_TRUE(put) << put.error().ToString();
  }
  void Unpin(int first) { EXPECT_TRUE(pins().Remove(LeafOf(Tokens(first)).hash)); }
  void Exchange() { shared->Exchange(); }
  // The first tokens of what is pinned, and the names.
  std::set<std::string> Has() {
    std::set<std::string> has;
    for (const Pin& pin : pins().List()) has.insert(std::to_string(pin.tokens[0]) + pin.name);
    return has;
  }
  std::string Collected() const {
    std::string text;
    metrics::TextWriter writer(text);
    shared->Collect(writer);
    return text;
  }
  PinBook& pins() { return data_->pins(); }
  store::kv::KvStore& kv() { return data_->kv(); }
  Fingerprint numerics() const { return {.low = number_, .high = model_.low}; }
  store::kv::KvKey LeafOf(const std::vector<TokenId>& tokens) const {
    const auto [low, high] = Xxh3(std::as_bytes(std::span(tokens)), number_);
    return {.fingerprint = numerics(), .hash = {.low = low, .high = high}};
  }

  MemoryClient client;
  std::vector<Pin> pinned = {};
  std::vector<Pin> unpinned = {};
  std::unique_ptr<SharedPins> shared;

 private:
  const uint64_t number_;
  const Fingerprint model_;
  const size_t value_bytes_max_;
  const TempFolder folder_;
  std::unique_ptr<store::DataDirectory> data_;
  std::unique_ptr<SharedMap> map_;
};

class SharedPinsTest : public testing::Test {
 protected:
  using Names = std::set<std::string>;

  MemoryServer server_;
  Gateway a_{server_, 1};
  Gateway b_{server_, 2};
};

TEST_F(SharedPinsTest, WhatIsPinnedAtOneIsPinnedAtTheOtherUnderItsOwnHashes) {
  Pin pin = a_.PinOf(1, "agent");
  pin.priority = 5;
  pin.version = "3";
  a_.Put(pin);
  a_.Exchange();
  b_.Exchange();
  ASSERT_EQ(b_.Has(), (Names{"1agent"}));
  const Pin taken = b_.pins().List()[0];
  EXPECT_EQ(taken.leaf, b_.LeafOf(pin.tokens));
  EXPECT_EQ(taken.priority, 5);
  EXPECT_EQ(taken.version, "3");
  EXPECT_EQ(taken.tenant, "alice");
  ASSERT_EQ(b_.pinned.size(), 1u);
  EXPECT_EQ(b_.pinned[0].leaf, taken.leaf);
  // Each change is told and taken once.
  for (int round = 0; round < 3; ++round) {
    b_.Exchange();
    a_.Exchange();
  }
  EXPECT_TRUE(a_.pinned.empty());
  EXPECT_EQ(b_.pinned.size(), 1u);
  EXPECT_NE(a_.Collected().find("result=\"told\"} 1\n"), std::string::npos);
  EXPECT_NE(b_.Collected().find("result=\"told\"} 0\n"), std::string::npos);
  // A gateway that starts later.
  Gateway c(server_, 3);
  c.Exchange();
  EXPECT_EQ(c.Has(), (Names{"1agent"}));
}

TEST_F(SharedPinsTest, WhatIsUnpinnedAtOneIsUnpinnedAtTheOther) {
  a_.Put(a_.PinOf(1));
  a_.Put(a_.PinOf(2));
  a_.Exchange();
  b_.Exchange();
  b_.Unpin(1);
  b_.Exchange();
  a_.Exchange();
  EXPECT_EQ(a_.Has(), (Names{"2"}));
  ASSERT_EQ(a_.unpinned.size(), 1u);
  EXPECT_EQ(a_.unpinned[0].leaf, a_.LeafOf(Tokens(1)));
  // And pinned again, though the clock of who unpinned it may be ahead.
  a_.Put(a_.PinOf(1, "again"));
  a_.Exchange();
  b_.Exchange();
  EXPECT_EQ(b_.Has(), (Names{"1again", "2"}));
}

TEST_F(SharedPinsTest, AnUnpinThatAGatewayMissedReachesItAndIsNotUndone) {
  a_.Put(a_.PinOf(1));
  a_.Exchange();
  b_.Exchange();
  b_.client.is_down = true;
  a_.Unpin(1);
  a_.Exchange();
  b_.Exchange();
  EXPECT_EQ(b_.Has(), (Names{"1"}));
  b_.Open();  // it knows nothing of before
  b_.client.is_down = false;
  b_.Exchange();
  a_.Exchange();
  EXPECT_TRUE(b_.Has().empty());
  EXPECT_TRUE(a_.Has().empty());
}

TEST_F(SharedPinsTest, WhatWasDoneWhileTheStoreWasAwayIsToldAfterwards) {
  a_.Put(a_.PinOf(1));
  a_.Exchange();
  b_.Exchange();
  a_.client.is_down = true;
  a_.Put(a_.PinOf(2));
  a_.Unpin(1);
  a_.Exchange();
  a_.Open();
  a_.client.is_down = false;
  a_.Exchange();
  b_.Exchange();
  EXPECT_EQ(b_.Has(), (Names{"2"}));
}

// The store forgets all, and who tells it first is one that has not heard of the unpin.
TEST_F(SharedPinsTest, AStoreThatForgetsBringsNoPinBackAndLosesNone) {
  a_.Put(a_.PinOf(1));
  a_.Put(a_.PinOf(2));
  a_.Exchange();
  b_.Exchange();
  a_.Unpin(1);
  a_.Exchange();
  server_.Flush();
  b_.Exchange();
  EXPECT_EQ(b_.Has(), (Names{"1", "2"}));
  a_.Exchange();
  b_.Exchange();
  a_.Exchange();
  EXPECT_EQ(a_.Has(), (Names{"2"}));
  EXPECT_EQ(b_.Has(), (Names{"2"}));
  Gateway c(server_, 3);
  c.Exchange();
  EXPECT_EQ(c.Has(), (Names{"2"}));
}

TEST_F(SharedPinsTest, ANewerVersionOfANameTakesThePlaceOfTheOlderOneEverywhere) {
  a_.Put(a_.PinOf(1, "agent"));
  a_.Exchange();
  b_.Exchange();
  b_.Put(b_.PinOf(2, "agent"));
  b_.Exchange();
  a_.Exchange();
  EXPECT_EQ(a_.Has(), (Names{"2agent"}));
  EXPECT_EQ(b_.Has(), (Names{"2agent"}));
  // Two at once that know nothing of each other: the later one holds at both.
  a_.Put(a_.PinOf(3, "agent"));
  b_.Put(b_.PinOf(4, "agent"));
  for (int round = 0; round < 3; ++round) {
    a_.Exchange();
    b_.Exchange();
  }
  EXPECT_EQ(a_.Has(), (Names{"4agent"}));
  EXPECT_EQ(b_.Has(), (Names{"4agent"}));
  Gateway c(server_, 3);
  c.Exchange();
  EXPECT_EQ(c.Has(), (Names{"4agent"}));
}

TEST_F(SharedPinsTest, TenantsStayApart) {
  a_.Put(a_.PinOf(1, "agent"));
  Pin others = a_.PinOf(2, "agent", "bob");
  a_.Put(others);
  a_.Exchange();
  b_.Exchange();
  EXPECT_EQ(b_.Has(), (Names{"1agent", "2agent"}));
  for (const Pin& pin : b_.pins().List()) {
    EXPECT_EQ(pin.tenant, pin.tokens[0] == 1 ? "alice" : "bob");
  }
  for (const auto& [key, value] : server_.values) {
    for (const char* word : {"alice", "bob", "agent"}) {
      EXPECT_EQ((key + value).find(word), std::string::npos) << word;
    }
  }
}

TEST_F(SharedPinsTest, PinsOfAnotherModelDoAGatewayNoHarm) {
  Gateway other(server_, 3, {.low = 9, .high = 9});
  a_.Put(a_.PinOf(1));
  other.Put(other.PinOf(2));
  for (int round = 0; round < 2; ++round) {
    a_.Exchange();
    other.Exchange();
    b_.Exchange();
  }
  EXPECT_EQ(a_.Has(), (Names{"1"}));
  EXPECT_EQ(b_.Has(), (Names{"1"}));
  EXPECT_EQ(other.Has(), (Names{"2"}));
  // Two models may have the same tokens; each has a pin of its own.
  other.Put(other.PinOf(1));
  other.Exchange();
  a_.Exchange();
  other.Unpin(1);
  other.Exchange();
  for (Gateway* gateway : {&a_, &b_}) gateway->Exchange();
  EXPECT_EQ(a_.Has(), (Names{"1"}));
  EXPECT_EQ(b_.Has(), (Names{"1"}));
  EXPECT_EQ(other.Has(), (Names{"2"}));
}

TEST_F(SharedPinsTest, APinWhoseModelBecomesKnownIsStillOne) {
  Pin unknown = a_.PinOf(1);
  unknown.model = {};
  a_.Put(unknown);
  a_.Exchange();
  b_.Exchange();
  EXPECT_TRUE(b_.Has().empty());  // of the same numerics alone
  a_.Put(a_.PinOf(1, "known"));
  for (int round = 0; round < 2; ++round) {
    a_.Exchange();
    b_.Exchange();
  }
  EXPECT_EQ(a_.Has(), (Names{"1known"}));
  EXPECT_EQ(b_.Has(), (Names{"1known"}));
}

TEST_F(SharedPinsTest, WhatAGatewayRefusesIsAskedOnceAndAgainWhenItHasChanged) {
  b_.pins().LimitTenants(0.0001);  // no prefix of a tenant fits
  a_.Put(a_.PinOf(1));
  for (int round = 0; round < 3; ++round) {
    a_.Exchange();
    b_.Exchange();
  }
  EXPECT_TRUE(b_.Has().empty());
  EXPECT_EQ(a_.Has(), (Names{"1"}));
  EXPECT_NE(b_.Collected().find("result=\"refused\"} 1\n"), std::string::npos);
  b_.pins().LimitTenants(1);
  a_.Put(a_.PinOf(1, "named"));
  a_.Exchange();
  b_.Exchange();
  EXPECT_EQ(b_.Has(), (Names{"1named"}));
}

TEST_F(SharedPinsTest, ALongPrefixIsSharedAndATooLongOneStaysWhereItIs) {
  Gateway small(server_, 3, kModel, /*value_bytes_max=*/300);
  Pin pin = small.PinOf(1, "long");
  pin.tokens = Tokens(100'000, 256);
  pin.leaf = small.LeafOf(pin.tokens);
  small.Put(pin);
  small.Put(small.PinOf(2, "short"));
  for (int round = 0; round < 2; ++round) {
    small.Exchange();
    b_.Exchange();
  }
  EXPECT_EQ(b_.Has(), (Names{"2short"}));
  EXPECT_EQ(small.Has(), (Names{"100000long", "2short"}));
}

TEST_F(SharedPinsTest, DamageIsLeftOutAndHealedByWhoHasThePin) {
  a_.Put(a_.PinOf(1));
  a_.Exchange();
  for (auto& [key, value] : server_.values) {
    if (value.size() > 64) value.back() = static_cast<char>(value.back() ^ 1);
  }
  b_.Exchange();
  EXPECT_TRUE(b_.Has().empty());
  EXPECT_NE(b_.Collected().find("kvgate_shared_pins_unread_total 1\n"), std::string::npos);
  a_.Open();  // reads all there is
  a_.Exchange();
  EXPECT_EQ(a_.Has(), (Names{"1"}));
  b_.Exchange();
  EXPECT_EQ(b_.Has(), (Names{"1"}));
}

TEST_F(SharedPinsTest, AnUnpinThatTheDiskRefusesIsDoneWhenItTakesWritesAgain) {
  store::MemoryMetaStore meta;
  meta.SetKeyring(*Keyring::Parse(getenv(kSecretEnv), "test"));
  const auto pins = *PinBook::Open(meta, b_.kv(), false);
  SharedMap map({.kind = "pins", .is_listed = true}, b_.client, meta.keyring());
  size_t num_unpinned = 0;
  SharedPins shared({}, {.map = map,
                         .pins = *pins,
                         .ring = meta.keyring(),
                         .kv_fingerprint = b_.numerics(),
                         .model_fingerprint = kModel,
                         .leaf_of = [&](const Pin& pin) { return b_.LeafOf(pin.tokens); },
                         .on_pinned = [](const Pin&) {},
                         .on_unpinned = [&](const Pin&) { ++num_unpinned; }});
  a_.Put(a_.PinOf(1));
  a_.Exchange();
  shared.Exchange();
  ASSERT_EQ(pins->size(), 1u);
  a_.Unpin(1);
  a_.Exchange();
  meta.refuses = true;
  shared.Exchange();
  shared.Exchange();
  a_.Exchange();
  EXPECT_EQ(pins->size(), 1u);
  EXPECT_TRUE(a_.Has().empty());
  meta.refuses = false;
  shared.Exchange();
  EXPECT_EQ(pins->size(), 0u);
  EXPECT_EQ(num_unpinned, 1u);
}

TEST_F(SharedPinsTest, AnExpiredPinIsNotTakenAndItsEndIsNoUnpin) {
  const test::ManualClock clock;
  Pin pin = a_.PinOf(1);
  pin.expires_unix = WallClock::NowUnix() + 60;
  a_.Put(pin);
  a_.Exchange();
  b_.Exchange();
  EXPECT_EQ(b_.pins().List().at(0).expires_unix, pin.expires_unix);
  test::ManualClock::Advance(std::chrono::seconds(61));
  ASSERT_EQ(*a_.pins().DropExpired(), 1u);
  Gateway c(server_, 3);
  for (Gateway* gateway : {&a_, &b_, &c}) gateway->Exchange();
  EXPECT_TRUE(c.Has().empty());
  EXPECT_TRUE(a_.pins().Removed().empty());
  EXPECT_TRUE(b_.unpinned.empty());
}

TEST_F(SharedPinsTest, AfterARestartPinsAreAsTheyWere) {
  a_.Put(a_.PinOf(1, "one"));
  b_.Put(b_.PinOf(2, "two"));
  for (int round = 0; round < 2; ++round) {
    a_.Exchange();
    b_.Exchange();
  }
  b_.Open();
  b_.pinned.clear();
  EXPECT_EQ(b_.Has(), (Names{"1one", "2two"}));
  b_.Exchange();
  a_.Exchange();
  EXPECT_EQ(b_.Has(), (Names{"1one", "2two"}));
  EXPECT_EQ(a_.Has(), (Names{"1one", "2two"}));
  EXPECT_TRUE(b_.pinned.empty());
}

TEST_F(SharedPinsTest, ACommandThatIsCarriedOutTwiceOrWhoseAnswerIsLostCountsOnce) {
  a_.client.repeats = true;
  a_.Put(a_.PinOf(1));
  a_.Exchange();
  a_.client.repeats = false;
  a_.client.loses_answers = true;
  a_.Put(a_.PinOf(2));
  a_.Exchange();
  a_.client.loses_answers = false;
  a_.Exchange();
  b_.Exchange();
  EXPECT_EQ(b_.Has(), (Names{"1", "2"}));
}

}  // namespace
}  // namespace kvgate::runtime::sharing
