#include "gateway/local/prefix_places.h"

#include <gtest/gtest.h>

#include "tests/engine/memory_kv_store.h"
#include "tests/gateway/fakes.h"

namespace kvgate::local {
namespace {

using engine::KvPlace;

BlockHash Hash(uint64_t id) { return {id, 7}; }

// A store with the prefix 1, 2, 3 and 4 of the engine's model, and block 9 of another model.
struct Fixture {
  Fixture() {
    for (uint64_t id = 1; id <= 4; ++id) Put(engine.info().kv_fingerprint, id);
    const store::kv::KvRecord record{
        .key = {other, Hash(9)}, .parent = {}, .digest = {}, .payload = {}};
    EXPECT_TRUE(kv.Put({&record, 1}));
  }
  void Put(Fingerprint fingerprint, uint64_t id) {
    const store::kv::KvRecord record{.key = {fingerprint, Hash(id)},
                                     .parent = id == 1 ? BlockHash{} : Hash(id - 1),
                                     .depth = static_cast<uint32_t>(id - 1),
                                     .digest = {},
                                     .payload = {}};
    EXPECT_TRUE(kv.Put({&record, 1}));
  }
  ListedPrefix Prefix(uint64_t leaf) const {
    return {.leaf = {engine.info().kv_fingerprint, Hash(leaf)}};
  }
  test::FakeEngine engine{{}};
  Fingerprint other{5, 5};
  store::MemoryKvStore kv;
};

TEST(PrefixPlacesTest, APrefixIsWhereItsLastBlockIsAndItsTokensWhereTheyAre) {
  Fixture at;
  at.engine.places = {
      {Hash(1), KvPlace::kDevice}, {Hash(2), KvPlace::kDevice}, {Hash(3), KvPlace::kHost}};
  const std::vector<ListedPrefix> prefixes = {
      at.Prefix(4), at.Prefix(3), at.Prefix(2), {.leaf = {at.other, Hash(9)}}};
  const auto places = FindPlaces(&at.engine, at.kv, prefixes);
  ASSERT_EQ(places.size(), 4u);
  EXPECT_EQ(places[0].tier, "disk");
  ASSERT_TRUE(places[0].tokens.has_value());
  EXPECT_EQ(places[0].tokens->on_device, 64u);
  EXPECT_EQ(places[0].tokens->on_host, 32u);
  EXPECT_EQ(places[0].tokens->on_disk, 32u);
  EXPECT_EQ(places[1].tier, "host");
  EXPECT_EQ(places[2].tier, "device");
  EXPECT_EQ(places[3].tier, "disk") << "KV of another model is in no engine";
  EXPECT_FALSE(places[3].tokens.has_value());
}

TEST(PrefixPlacesTest, WithoutAnEngineAllIsOnDiskAndABusyOneLeavesItOpen) {
  Fixture at;
  const std::vector<ListedPrefix> prefixes = {at.Prefix(4), {.leaf = {at.other, Hash(9)}}};
  EXPECT_EQ(FindPlaces(nullptr, at.kv, prefixes)[0].tier, "disk");
  at.engine.is_busy = true;
  const auto places = FindPlaces(&at.engine, at.kv, prefixes);
  EXPECT_EQ(places[0].tier, "");
  EXPECT_EQ(places[1].tier, "disk");
}

TEST(PrefixPlacesTest, APinThatIsNotStoredMayBeInMemory) {
  Fixture at;
  ListedPrefix pin = at.Prefix(77);
  pin.is_stored = false;
  EXPECT_EQ(FindPlaces(&at.engine, at.kv, {{pin}})[0].tier, "");
  at.engine.places = {{Hash(77), KvPlace::kHost}};
  const auto places = FindPlaces(&at.engine, at.kv, {{pin}});
  EXPECT_EQ(places[0].tier, "host");
  EXPECT_FALSE(places[0].tokens.has_value());
}

TEST(PrefixPlacesTest, AsksTheEngineForABoundedNumberOfBlocks) {
  Fixture at;
  at.engine.places = {{Hash(4), KvPlace::kDevice}};
  const std::vector<ListedPrefix> prefixes(4, at.Prefix(4));
  const auto places = FindPlaces(&at.engine, at.kv, prefixes, {.blocks_max = 6});
  EXPECT_EQ(at.engine.num_located, 6u);
  EXPECT_TRUE(places[0].tokens.has_value());
  EXPECT_EQ(places[1].tier, "device");
  EXPECT_FALSE(places[1].tokens.has_value());
  EXPECT_EQ(places[2].tier, "device");
  EXPECT_EQ(places[3].tier, "") << "nobody was asked";
}

}  // namespace
}  // namespace kvgate::local
