#include "store/meta/pin_book.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "store/kv/kv_format.h"
#include "store/rocks_data_directory.h"
#include "tests/store/store_fixture.h"
#include "tests/wait_until.h"

namespace kvgate::store::meta {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::unique_ptr<DataDirectory> OpenDirectory(const std::filesystem::path& path) {
  auto opened = DataDirectory::Open({.directory = path, .kv_bytes_max = 32 * kMiB});
  EXPECT_TRUE(opened) << opened.error().ToString();
  return std::move(opened).value();
}

int64_t SecondsFromNow(int64_t seconds) {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
             .count() +
         seconds;
}

Pin PinOf(const Block& leaf, std::string name = {}, std::string version = {}) {
  Pin pin;
  pin.leaf = leaf.key;
  pin.name = std::move(name);
  pin.version = std::move(version);
  pin.tenant = "tenant";
  pin.tokens = {1, 2, 3};
  return pin;
}

// Writes at least `total_bytes` of other prefixes.
void Flood(kv::KvStore& kv, uint64_t first_chain, uint64_t total_bytes) {
  for (uint64_t chain = 0; chain * 4 * 256 * 1024 < total_bytes; ++chain) {
    ASSERT_TRUE(kv.Put(Records(MakeChain(first_chain + chain, 4, 256 * 1024))));
  }
}

TEST(PinBook, APinSurvivesReopeningAndAFloodThatEvictsEverythingElse) {
  const TempFolder directory;
  const auto kept = MakeChain(1, 8, 100'000);
  const auto other = MakeChain(2, 8, 100'000);
  {
    const auto data = OpenDirectory(directory.path());
    ASSERT_TRUE(data->kv().Put(Records(kept)));
    ASSERT_TRUE(data->kv().Put(Records(other)));
    ASSERT_TRUE(data->pins().Put(PinOf(kept.back(), "agent", "1")));
  }
  const auto data = OpenDirectory(directory.path());
  ASSERT_EQ(data->pins().List().size(), 1u);
  EXPECT_EQ(data->pins().List()[0].name, "agent");
  Flood(data->kv(), 100, 64 * kMiB);
  for (const Block& block : kept) EXPECT_EQ(Read(data->kv(), block), Found::kRight);
  EXPECT_EQ(Read(data->kv(), other.back()), Found::kMissing);
  ASSERT_TRUE(data->pins().Remove(kept.back().key.hash));
  Flood(data->kv(), 1000, 64 * kMiB);
  EXPECT_EQ(Read(data->kv(), kept.back()), Found::kMissing);
}

TEST(PinBook, ANewVersionOfANameTakesTheOlderOnesPlace) {
  const TempFolder directory;
  const auto data = OpenDirectory(directory.path());
  const auto one = MakeChain(1, 2, 1000);
  const auto two = MakeChain(2, 2, 1000);
  ASSERT_TRUE(data->kv().Put(Records(one)));
  ASSERT_TRUE(data->kv().Put(Records(two)));
  PinBook& pins = data->pins();
  ASSERT_TRUE(pins.Put(PinOf(one.back(), "agent", "1")));
  Pin foreign = PinOf(MakeChain(3, 1, 10).back(), "agent", "1");
  foreign.tenant = "another tenant";
  ASSERT_TRUE(pins.Put(foreign));
  ASSERT_TRUE(pins.Put(PinOf(two.back(), "agent", "2")));
  EXPECT_EQ(pins.size(), 2u);
  EXPECT_FALSE(pins.Find(one.back().key.hash));
  EXPECT_EQ(pins.Find(two.back().key.hash)->version, "2");
  EXPECT_TRUE(pins.Find(foreign.leaf.hash));
  EXPECT_TRUE(data->kv().RemovePrefix(one.back().key.hash)) << "the older version is unpinned";
  EXPECT_EQ(data->kv().RemovePrefix(two.back().key.hash).error().code, ErrorCode::kInvalidArgument);
}

TEST(PinBook, OfTwoVersionsThatACrashLeftTheNewerOneStays) {
  const TempFolder directory;
  const auto one = MakeChain(1, 1, 10);
  const auto two = MakeChain(2, 1, 10);
  {
    const auto data = OpenDirectory(directory.path());
    Pin older = PinOf(one.back(), "agent", "1");
    older.created_us = 5;
    Pin newer = PinOf(two.back(), "agent", "2");
    newer.created_us = 6;
    for (const Pin& pin : {newer, older}) {
      ASSERT_TRUE(data->meta().Put(MetaTable::kPins, kv::EncodeKvKey(pin.leaf),
                                   EncodePin(pin, data->meta().keyring())));
    }
  }
  const auto data = OpenDirectory(directory.path());
  ASSERT_EQ(data->pins().List().size(), 1u);
  EXPECT_EQ(data->pins().List()[0].version, "2");
}

TEST(PinBook, ADamagedPinIsDroppedAndTheOthersStay) {
  const TempFolder directory;
  const auto good = MakeChain(1, 1, 10);
  const auto bad = MakeChain(2, 1, 10);
  {
    const auto data = OpenDirectory(directory.path());
    ASSERT_TRUE(data->pins().Put(PinOf(good.back())));
    std::string value = EncodePin(PinOf(bad.back()), data->meta().keyring());
    value[40] ^= 1;
    ASSERT_TRUE(data->meta().Put(MetaTable::kPins, kv::EncodeKvKey(bad.back().key), value));
    ASSERT_TRUE(data->meta().Put(MetaTable::kPins, "no key", "no pin"));
  }
  {
    const auto data = OpenDirectory(directory.path());
    EXPECT_EQ(data->pins().num_damaged(), 2u);
    ASSERT_EQ(data->pins().List().size(), 1u);
    EXPECT_EQ(data->pins().List()[0].leaf, good.back().key);
  }
  EXPECT_EQ(OpenDirectory(directory.path())->pins().num_damaged(), 0u) << "gone for good";
}

TEST(PinBook, AnExpiredPinEndsByItself) {
  const TempFolder directory;
  const auto data = OpenDirectory(directory.path());
  const auto chain = MakeChain(1, 4, 100'000);
  ASSERT_TRUE(data->kv().Put(Records(chain)));
  Pin pin = PinOf(chain.back());
  pin.expires_unix = SecondsFromNow(-1);
  EXPECT_EQ(data->pins().Put(pin).error().field, "ttl_seconds");
  pin.expires_unix = SecondsFromNow(10);
  ASSERT_TRUE(data->pins().Put(pin));
  Flood(data->kv(), 100, 48 * kMiB);
  EXPECT_EQ(Read(data->kv(), chain.back()), Found::kRight);
  ASSERT_TRUE(test::WaitUntil([&] { return data->pins().List().empty(); }, "the pin expires"));
  Flood(data->kv(), 1000, 64 * kMiB);
  EXPECT_EQ(Read(data->kv(), chain.back()), Found::kMissing);
  EXPECT_EQ(data->pins().DropExpired().value(), 1u);
  EXPECT_EQ(data->pins().size(), 0u);
}

TEST(PinBook, ListsTheHighestPriorityFirstAndRekeysWhatWasRecomputed) {
  const TempFolder directory;
  const auto data = OpenDirectory(directory.path());
  for (const int priority : {1, 9, 5}) {
    Pin pin = PinOf(MakeBlock(static_cast<uint64_t>(priority), 0, 10));
    pin.priority = priority;
    ASSERT_TRUE(data->pins().Put(pin));
  }
  std::vector<int> order;
  for (const Pin& pin : data->pins().List()) order.push_back(pin.priority);
  EXPECT_EQ(order, (std::vector<int>{9, 5, 1}));
  const kv::KvKey moved{Fingerprint{7, 7}, BlockHash{8, 8}};
  ASSERT_TRUE(data->pins().Rekey(MakeBlock(9, 0, 10).key.hash, moved));
  EXPECT_EQ(data->pins().List()[0].leaf, moved);
  EXPECT_EQ(data->pins().size(), 3u);
}

TEST(PinBook, OneTenantPinsItsShareAndLeavesTheRestToOthers) {
  const TempFolder directory;
  const auto data = OpenDirectory(directory.path());
  data->pins().LimitTenants(0.5);  // of 16 MiB
  Result<void> done;
  uint64_t chain = 1;
  for (; done && chain < 20; ++chain) {
    const auto blocks = MakeChain(chain, 4, 256 * 1024);
    ASSERT_TRUE(data->kv().Put(Records(blocks)));
    done = data->pins().Put(PinOf(blocks.back()));
  }
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(done.error().detail.find("store.tenant_share"), std::string::npos);
  const size_t num_pinned = data->pins().size();
  EXPECT_GE(num_pinned, 6u);
  EXPECT_LE(num_pinned, 8u);
  // A refused pin holds no bytes, and an existing pin can be renewed.
  EXPECT_LE(data->kv().Stats().pinned_bytes, 8 * kMiB);
  EXPECT_TRUE(data->pins().Put(PinOf(MakeChain(1, 4, 256 * 1024).back(), "renewed")));
  const auto other = MakeChain(100, 4, 256 * 1024);
  ASSERT_TRUE(data->kv().Put(Records(other)));
  Pin pin = PinOf(other.back());
  pin.tenant = "another tenant";
  EXPECT_TRUE(data->pins().Put(pin));
  EXPECT_EQ(data->pins().size(), num_pinned + 1);
}

TEST(PinBook, BlocksThatPinsOfATenantShareCountOnce) {
  const TempFolder directory;
  const auto data = OpenDirectory(directory.path());
  data->pins().LimitTenants(0.5);
  const auto blocks = MakeChain(1, 24, 256 * 1024);
  ASSERT_TRUE(data->kv().Put(Records(blocks)));
  // The 24 prefixes share one chain: 6 MiB together, but 75 MiB if each were counted alone.
  for (const Block& block : blocks) EXPECT_TRUE(data->pins().Put(PinOf(block)));
}

TEST(PinBook, BadFieldsAreNamed) {
  const TempFolder directory;
  const auto data = OpenDirectory(directory.path());
  const Block block = MakeBlock(1, 0, 10);
  const auto field = [&](const Pin& pin) { return data->pins().Put(pin).error().field; };
  EXPECT_EQ(field(PinOf(block, std::string(kPinTextMax + 1, 'n'))), "name");
  EXPECT_EQ(field(PinOf(block, "n", std::string(kPinTextMax + 1, 'v'))), "version");
  EXPECT_EQ(field(PinOf(block, "", "1")), "name");
  Pin empty = PinOf(block);
  empty.tokens.clear();
  EXPECT_EQ(field(empty), "tokens");
  EXPECT_EQ(data->pins().Remove(block.key.hash).error().code, ErrorCode::kNotFound);
}

// The pin as another gateway made it: under the leaf that it has here.
Pin Others(const Block& leaf, int64_t created_us, std::vector<TokenId> tokens,
           std::string name = {}) {
  Pin pin = PinOf(leaf, std::move(name));
  pin.tokens = std::move(tokens);
  pin.created_us = created_us;
  return pin;
}

TEST(PinBook, OfAPinAndAnUnpinOfOneGatewayOrAnotherTheLaterOneHolds) {
  const TempFolder directory;
  const auto chain = MakeChain(1, 2, 1'000);
  const int64_t now_us = WallClock::NowUs();
  const auto data = OpenDirectory(directory.path());
  PinBook& pins = data->pins();
  ASSERT_TRUE(pins.Take(Others(chain[1], now_us, {1}))->is_taken);
  EXPECT_FALSE(pins.Take(Others(chain[1], now_us, {1}))->is_taken);
  ASSERT_EQ(pins.Stamps().size(), 1u);
  const PinStamp stamp = pins.Stamps()[0];
  EXPECT_EQ(stamp.created_us, now_us);
  // An unpin of before changes nothing, a later one ends it, and an older pin does not come back.
  const RemovedPin before{.prefix = stamp.prefix, .tenant = "tenant", .removed_us = now_us - 1};
  EXPECT_TRUE(pins.TakeRemoval(before)->empty());
  EXPECT_TRUE(pins.Removed().empty());
  const int64_t ahead_us = now_us + 3'600'000'000;
  RemovedPin after = before;
  after.removed_us = ahead_us;
  EXPECT_EQ(pins.TakeRemoval(after)->size(), 1u);
  EXPECT_FALSE(pins.Take(Others(chain[1], now_us, {1}))->is_taken);
  EXPECT_EQ(pins.size(), 0u);
  ASSERT_EQ(pins.Removed().size(), 1u);
  // Pinned again here, it is later than the unpin, though that gateway's clock is ahead.
  ASSERT_TRUE(pins.Put(Others(chain[1], 0, {1})));
  EXPECT_GT(pins.Stamps()[0].created_us, ahead_us);
  EXPECT_TRUE(pins.Removed().empty());
  ASSERT_TRUE(pins.Remove(chain[1].key.hash));
  EXPECT_GT(pins.Removed().at(0).removed_us, ahead_us);
}

TEST(PinBook, OfTwoPrefixesOfOneNameTheLaterPinHoldsAndTheOtherCountsAsRemoved) {
  const TempFolder directory;
  const auto one = MakeChain(1, 2, 1'000);
  const auto two = MakeChain(2, 2, 1'000);
  const int64_t now_us = WallClock::NowUs();
  const auto data = OpenDirectory(directory.path());
  PinBook& pins = data->pins();
  ASSERT_TRUE(pins.Take(Others(one[1], now_us, {1}, "n"))->is_taken);
  EXPECT_FALSE(pins.Take(Others(two[1], now_us - 5, {2}, "n"))->is_taken);
  ASSERT_EQ(pins.Removed().size(), 1u);
  EXPECT_EQ(pins.Removed()[0].removed_us, now_us - 4);
  const auto taken = pins.Take(Others(two[1], now_us + 5, {2}, "n"));
  ASSERT_TRUE(taken && taken->is_taken);
  ASSERT_EQ(taken->ended.size(), 1u);
  EXPECT_EQ(taken->ended[0].leaf, one[1].key);
  EXPECT_EQ(pins.size(), 1u);
  EXPECT_EQ(pins.Removed().size(), 1u);
}

TEST(PinBook, OfTwoPrefixesOfOneNameAndOneMomentAllGatewaysKeepTheSameOne) {
  const TempFolder directories[2];
  const auto one = MakeChain(1, 2, 1'000);
  const auto two = MakeChain(2, 2, 1'000);
  const int64_t now_us = WallClock::NowUs();
  setenv("KVGATE_PIN_BOOK_TEST_SECRET", Keyring::GenerateSecret().c_str(), 1);
  std::vector<TokenId> kept;
  for (const int first : {0, 1}) {
    const auto data = *DataDirectory::Open({.directory = directories[first].path(),
                                            .kv_bytes_max = 32 * kMiB,
                                            .secret_env = "KVGATE_PIN_BOOK_TEST_SECRET"});
    for (const int step : {0, 1}) {
      const bool is_one = (first + step) % 2 == 0;
      ASSERT_TRUE(
          data->pins().Take(Others(is_one ? one[1] : two[1], now_us, {is_one ? 1 : 2}, "n")));
    }
    ASSERT_EQ(data->pins().size(), 1u);
    kept.push_back(data->pins().List()[0].tokens[0]);
  }
  EXPECT_EQ(kept[0], kept[1]);
}

}  // namespace
}  // namespace kvgate::store::meta
