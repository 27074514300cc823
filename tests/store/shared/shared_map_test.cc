#include "store/shared/shared_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/store/shared/memory_client.h"

namespace kvgate::store::shared {
namespace {

using State = SharedMap::Value::State;

class SharedMapTest : public testing::Test {
 protected:
  SharedMap Map(bool is_listed, const Keyring& ring) {
    return SharedMap({.kind = "things", .value_bytes_max = 1'000, .is_listed = is_listed}, client_,
                     ring);
  }
  SharedMap::Value Get(const SharedMap& map, const SharedMap::Name& name) {
    const std::string key = map.KeyOf(name);
    const auto values = map.Get({&key, 1}, SteadyClock::now());
    EXPECT_TRUE(values);
    return values ? values->front() : SharedMap::Value();
  }
  // Returns the new version; empty: there was another one than was expected.
  std::string Set(const SharedMap& map, const SharedMap::Name& name, std::string_view expected,
                  std::string_view bytes) {
    const auto set =
        map.Set({.name = name, .expected = expected, .bytes = bytes}, SteadyClock::now());
    EXPECT_TRUE(set) << set.error().ToString();
    return set ? set->value_or("") : "";
  }

  const SharedMap::Name name_{.tenant = "alice", .name = "a"};
  MemoryServer server_;
  MemoryClient client_{server_};
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  SharedMap map_ = Map(false, *ring_);
  SharedMap listed_ = Map(true, *ring_);
};

TEST_F(SharedMapTest, WhatOneSetsTheOtherReads) {
  EXPECT_EQ(Get(map_, name_).state, State::kAbsent);
  const std::string version = Set(map_, name_, "", "said");
  const SharedMap other = Map(false, *ring_);
  const SharedMap::Value value = Get(other, name_);
  EXPECT_EQ(value.state, State::kThere);
  EXPECT_EQ(value.bytes, "said");
  EXPECT_EQ(value.tenant, "alice");
  EXPECT_EQ(value.version, version);
  EXPECT_EQ(Get(map_, {.tenant = "bob", .name = "a"}).state, State::kAbsent);
  EXPECT_EQ(Get(map_, {.tenant = "alic", .name = "ea"}).state, State::kAbsent);
}

TEST_F(SharedMapTest, OfTwoThatReplaceTheSameVersionOneIsToldSo) {
  const std::string first = Set(map_, name_, "", "1");
  EXPECT_EQ(Set(map_, name_, "", "other"), "");
  const std::string second = Set(map_, name_, first, "2");
  EXPECT_NE(second, "");
  EXPECT_EQ(Set(map_, name_, first, "other"), "");
  EXPECT_EQ(Get(map_, name_).bytes, "2");
}

TEST_F(SharedMapTest, WhatIsCarriedOutTwiceIsSetOnce) {
  client_.repeats = true;
  const std::string first = Set(listed_, name_, "", "1");
  EXPECT_NE(Set(listed_, name_, first, "2"), "");
  const auto changes = listed_.ChangedSince({}, 10, SteadyClock::now());
  ASSERT_TRUE(changes);
  EXPECT_EQ(changes->position.last, 2u);
  EXPECT_EQ(Get(listed_, name_).bytes, "2");
}

TEST_F(SharedMapTest, WhatWasSetAfterAPositionIsListedOnceOldestFirst) {
  std::vector<std::string> keys;
  std::string version;
  for (const char* name : {"a", "b", "c"}) {
    keys.push_back(listed_.KeyOf({.tenant = "t", .name = name}));
    version = Set(listed_, {.tenant = "t", .name = name}, "", name);
  }
  auto changes = *listed_.ChangedSince({}, 2, SteadyClock::now());
  EXPECT_EQ(changes.keys, (std::vector<std::string>{keys[0], keys[1]}));
  EXPECT_TRUE(changes.has_more);
  changes = *listed_.ChangedSince(changes.position, 2, SteadyClock::now());
  EXPECT_EQ(changes.keys, (std::vector<std::string>{keys[2]}));
  EXPECT_FALSE(changes.has_more);
  Set(listed_, {.tenant = "t", .name = "c"}, version, "anew");
  changes = *listed_.ChangedSince(changes.position, 2, SteadyClock::now());
  EXPECT_EQ(changes.keys, (std::vector<std::string>{keys[2]}));
  changes = *listed_.ChangedSince(changes.position, 2, SteadyClock::now());
  EXPECT_TRUE(changes.keys.empty());
}

TEST_F(SharedMapTest, AServerThatForgetsBeginsAnotherLife) {
  EXPECT_EQ(listed_.ChangedSince({}, 9, SteadyClock::now())->position.life, "");
  Set(listed_, name_, "", "1");
  const auto before = *listed_.ChangedSince({}, 9, SteadyClock::now());
  server_.Flush();
  EXPECT_EQ(listed_.ChangedSince(before.position, 9, SteadyClock::now())->position.life, "");
  EXPECT_FALSE(listed_.Renew(before.keys, SteadyClock::now())->front());
  Set(listed_, {.tenant = "t", .name = "b"}, "", "2");
  const auto after = *listed_.ChangedSince(before.position, 9, SteadyClock::now());
  EXPECT_NE(after.position.life, before.position.life);
  EXPECT_EQ(after.keys, (std::vector{listed_.KeyOf({.tenant = "t", .name = "b"})}));
  EXPECT_TRUE(listed_.Renew(after.keys, SteadyClock::now())->front());

  const std::string life = *map_.Life(SteadyClock::now());
  EXPECT_EQ(*Map(false, *ring_).Life(SteadyClock::now()), life);
  server_.Flush();
  EXPECT_NE(*map_.Life(SteadyClock::now()), life);
}

TEST_F(SharedMapTest, WhatIsDamagedOrMovedDoesNotOpenAndCanBeSetAnew) {
  Set(map_, name_, "", "1");
  Set(map_, {.tenant = "alice", .name = "b"}, "", "2");
  const std::string a = map_.KeyOf(name_);
  const std::string b = map_.KeyOf({.tenant = "alice", .name = "b"});
  std::swap(server_.values[a], server_.values[b]);
  const SharedMap::Value moved = Get(map_, name_);
  EXPECT_EQ(moved.state, State::kDamaged);
  EXPECT_NE(Set(map_, name_, moved.version, "again"), "");
  EXPECT_EQ(Get(map_, name_).bytes, "again");
  const std::string whole = server_.values[a];
  for (size_t size = 1; size < whole.size(); size += 7) {
    server_.values[a] = whole.substr(0, size);
    const SharedMap::Value cut = Get(map_, name_);
    EXPECT_NE(cut.state, State::kThere) << size;
    EXPECT_NE(cut.state, State::kAbsent) << size;
  }
  server_.values[a] = "x";
  EXPECT_NE(Set(map_, name_, Get(map_, name_).version, "healed"), "");
  EXPECT_EQ(Get(map_, name_).bytes, "healed");
}

TEST_F(SharedMapTest, AValueOfAMissingSecretIsForeignAndNothingStandsThereInClear) {
  const std::string old_secret = Keyring::GenerateSecret();
  const auto old_ring = *Keyring::Parse(old_secret, "test");
  const auto both = *Keyring::Parse(Keyring::GenerateSecret() + "," + old_secret, "test");
  const SharedMap newer = Map(false, *both);
  Set(newer, name_, "", "the words");
  EXPECT_EQ(Get(Map(false, *old_ring), name_).state, State::kForeign);
  EXPECT_EQ(Get(newer, name_).bytes, "the words");
  for (const auto& [key, value] : server_.values) {
    EXPECT_EQ(key.find("alice"), std::string::npos);
    EXPECT_EQ(value.find("alice"), std::string::npos);
    EXPECT_EQ(value.find("words"), std::string::npos);
  }
}

TEST_F(SharedMapTest, WhatIsTooLargeOrRefusedIsNotSet) {
  const auto large =
      map_.Set({.name = name_, .bytes = std::string(1'001, 'x')}, SteadyClock::now());
  EXPECT_EQ(large.error().code, ErrorCode::kTooLarge);
  client_.is_full = true;
  EXPECT_EQ(map_.Set({.name = name_, .bytes = "x"}, SteadyClock::now()).error().code,
            ErrorCode::kUnavailable);
  client_.is_down = true;
  EXPECT_TRUE(map_.is_paused());
  const std::string key = map_.KeyOf(name_);
  EXPECT_FALSE(map_.Get({&key, 1}, SteadyClock::now()));
  client_.is_down = false;
  client_.is_full = false;
  EXPECT_EQ(Get(map_, name_).state, State::kAbsent);
}

}  // namespace
}  // namespace kvgate::store::shared
