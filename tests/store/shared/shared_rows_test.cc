#include "store/shared/shared_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/store/shared/memory_client.h"

namespace kvgate::store::shared {
namespace {

using Texts = std::vector<std::string>;

class SharedRowsTest : public testing::Test {
 protected:
  static SteadyClock::time_point Soon() { return SteadyClock::now() + std::chrono::seconds(1); }

  SharedRows::Addition Addition(uint64_t num_before, std::string row, std::string list = "a",
                                std::string tenant = "alice") {
    return {.tenant = std::move(tenant),
            .list = std::move(list),
            .num_before = num_before,
            .row = std::move(row),
            .keys = {"k1", "k2"},
            .time_us = ++time_us_,
            .about = "about"};
  }
  bool Add(const SharedRows::Addition& addition) {
    const auto added = rows_.Add({&addition, 1}, Soon());
    EXPECT_TRUE(added) << added.error().ToString();
    return added && added->at(0);
  }
  Texts Read(const std::string& list = "a", std::string_view tenant = "alice") {
    const auto all = rows_.Read(tenant, {&list, 1}, Soon());
    EXPECT_TRUE(all) << all.error().ToString();
    return all ? all->at(0) : Texts();
  }
  // The names of the lists found under a key.
  Texts Find(const std::string& key, std::string_view tenant = "alice") {
    const auto found = rows_.Find(tenant, {&key, 1}, Soon());
    EXPECT_TRUE(found) << found.error().ToString();
    Texts names;
    for (const SharedRows::Found& one : *found) names.push_back(one.list);
    return names;
  }
  std::optional<std::string> TextOf(const std::string& name, std::string_view tenant = "alice") {
    const auto texts = rows_.ReadTexts(tenant, {&name, 1}, Soon());
    EXPECT_TRUE(texts) << texts.error().ToString();
    return texts ? texts->at(0) : std::nullopt;
  }

  int64_t time_us_ = 0;
  MemoryServer server_;
  MemoryClient client_{server_};
  const std::unique_ptr<Keyring> ring_ = Keyring::Generate();
  SharedRows rows_{{.lists_max = 3}, client_, *ring_};
};

TEST_F(SharedRowsTest, RowsAreReadInTheirOrder) {
  EXPECT_TRUE(Add(Addition(0, "one")));
  EXPECT_TRUE(Add(Addition(1, "two")));
  EXPECT_EQ(Read(), (Texts{"one", "two"}));
  EXPECT_TRUE(Add(Addition(0, "anew")));
  EXPECT_EQ(Read(), Texts{"anew"});
  EXPECT_EQ(Read("b"), Texts());
}

TEST_F(SharedRowsTest, RowsOfOneCallFollowEachOther) {
  const std::vector<SharedRows::Addition> additions = {Addition(0, "one"), Addition(1, "two"),
                                                       Addition(0, "other", "b")};
  const auto added = rows_.Add(additions, Soon());
  ASSERT_TRUE(added);
  EXPECT_EQ(*added, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(Read(), (Texts{"one", "two"}));
  EXPECT_EQ(Read("b"), Texts{"other"});
}

TEST_F(SharedRowsTest, WhatTheServerHasForgottenIsSaid) {
  EXPECT_TRUE(Add(Addition(0, "one")));
  server_.Flush();
  EXPECT_FALSE(Add(Addition(1, "two"))) << "there is no list any more";
  EXPECT_EQ(Read(), Texts());
  EXPECT_TRUE(Add(Addition(0, "anew")));
  EXPECT_EQ(Read(), Texts{"anew"});
}

TEST_F(SharedRowsTest, ARowThatWasAddedTwiceIsSaid) {
  EXPECT_TRUE(Add(Addition(0, "one")));
  client_.repeats = true;
  EXPECT_FALSE(Add(Addition(1, "two")));
  client_.repeats = false;
  EXPECT_FALSE(Add(Addition(2, "three"))) << "there is one more than its writer knows";
  EXPECT_TRUE(Add(Addition(0, "anew")));
}

TEST_F(SharedRowsTest, TextsAreSentOnce) {
  SharedRows::Addition addition = Addition(0, "one");
  addition.texts = {{.name = "t", .bytes = "a long text"}};
  EXPECT_TRUE(Add(addition));
  EXPECT_EQ(TextOf("t"), "a long text");
  EXPECT_EQ(TextOf("u"), std::nullopt);
  addition.texts[0].is_there = true;
  addition.texts[0].bytes = "";
  EXPECT_TRUE(Add(addition));
  EXPECT_EQ(TextOf("t"), "a long text");
  server_.Flush();
  EXPECT_FALSE(Add(addition)) << "the text is not there any more";
}

TEST_F(SharedRowsTest, AFullServerIsSaid) {
  client_.is_full = true;
  SharedRows::Addition addition = Addition(0, "one");
  EXPECT_FALSE(Add(addition));
  addition.texts = {{.name = "t", .bytes = "a text"}};
  EXPECT_FALSE(Add(addition));
}

TEST_F(SharedRowsTest, ListsAreFoundByTheirKeysNewestFirst) {
  EXPECT_TRUE(Add(Addition(0, "one", "a")));
  EXPECT_TRUE(Add(Addition(0, "one", "b")));
  EXPECT_EQ(Find("k1"), (Texts{"b", "a"}));
  EXPECT_TRUE(Add(Addition(1, "two", "a")));
  EXPECT_EQ(Find("k2"), (Texts{"a", "b"}));
  EXPECT_EQ(Find("k3"), Texts());
  const auto both = rows_.Find("alice", Texts{"k1", "k2", "k3"}, Soon());
  ASSERT_TRUE(both);
  ASSERT_EQ(both->size(), 2U) << "each once";
  EXPECT_EQ(both->at(0).about, "about");
  SharedRows::Addition left = Addition(2, "three", "a");
  left.keys = {"k1"};
  left.former_keys = {"k2"};
  EXPECT_TRUE(Add(left));
  EXPECT_EQ(Find("k2"), Texts{"b"});
}

TEST_F(SharedRowsTest, TheOldestListsOfAKeyLeave) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Add(Addition(0, "one", std::to_string(i))));
  EXPECT_EQ(Find("k1"), (Texts{"9", "8", "7"}));
  // Of many in one call, room is made once for each key.
  std::vector<SharedRows::Addition> many;
  for (int i = 10; i < 30; ++i) many.push_back(Addition(0, "one", std::to_string(i)));
  const auto num_looked_at = [&] {
    return std::count(client_.said.begin(), client_.said.end(), "HGETALL");
  };
  const auto before = num_looked_at();
  ASSERT_TRUE(rows_.Add(many, Soon()));
  EXPECT_EQ(num_looked_at() - before, 2);
  EXPECT_EQ(Find("k1"), (Texts{"29", "28", "27"}));
  for (const auto& [key, hash] : server_.hashes) EXPECT_LE(hash.size(), 6U);
  EXPECT_EQ(server_.hashes.size(), 2U);
  EXPECT_LE(server_.lists.size(), 6U);
}

TEST_F(SharedRowsTest, TenantsShareNothing) {
  SharedRows::Addition addition = Addition(0, "one");
  addition.texts = {{.name = "t", .bytes = "a text"}};
  EXPECT_TRUE(Add(addition));
  EXPECT_EQ(Read("a", "bob"), Texts());
  EXPECT_EQ(Find("k1", "bob"), Texts());
  EXPECT_EQ(TextOf("t", "bob"), std::nullopt);
}

TEST_F(SharedRowsTest, TheServerSeesNoNameAndNoText) {
  SharedRows::Addition addition = Addition(0, "a secret row", "secret list", "secret tenant");
  addition.texts = {{.name = "secret name", .bytes = "a secret text"}};
  addition.keys = {"secret key"};
  EXPECT_TRUE(Add(addition));
  const auto look = [](const std::string& bytes) {
    EXPECT_EQ(bytes.find("secret"), std::string::npos) << bytes;
  };
  for (const auto& [key, value] : server_.values) look(key + value);
  for (const auto& [key, hash] : server_.hashes) {
    for (const auto& [field, value] : hash) look(key + field + value);
  }
  for (const auto& [key, list] : server_.lists) {
    for (const std::string& row : list) look(key + row);
  }
  EXPECT_EQ(server_.values.size() + server_.hashes.size() + server_.lists.size(), 3U);
}

TEST_F(SharedRowsTest, WhatDoesNotOpenIsAbsent) {
  SharedRows::Addition addition = Addition(0, "one");
  addition.texts = {{.name = "t", .bytes = "a text"}};
  EXPECT_TRUE(Add(addition));
  EXPECT_TRUE(Add(Addition(1, "two")));
  const auto damage = [](std::string& bytes) {
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
  };
  for (auto& [key, value] : server_.values) damage(value);
  for (auto& [key, list] : server_.lists) damage(list[0]);
  for (auto& [key, hash] : server_.hashes) {
    for (auto& [field, value] : hash) value = value.substr(1);
  }
  EXPECT_EQ(TextOf("t"), std::nullopt);
  EXPECT_EQ(Read(), Texts()) << "a list with a hole is none";
  EXPECT_EQ(Find("k1"), Texts());
}

TEST_F(SharedRowsTest, AValueInAnotherPlaceDoesNotOpen) {
  EXPECT_TRUE(Add(Addition(0, "one", "a")));
  EXPECT_TRUE(Add(Addition(0, "two", "b")));
  ASSERT_EQ(server_.lists.size(), 2U);
  std::swap(server_.lists.begin()->second, server_.lists.rbegin()->second);
  EXPECT_EQ(Read("a"), Texts());
  EXPECT_EQ(Read("b"), Texts());
}

TEST_F(SharedRowsTest, ARemovedListIsNowhere) {
  EXPECT_TRUE(Add(Addition(0, "one", "a")));
  EXPECT_TRUE(Add(Addition(0, "one", "b")));
  const SharedRows::Removal removal{.tenant = "alice", .list = "a", .keys = {"k1", "k2"}};
  EXPECT_TRUE(rows_.Remove({&removal, 1}, Soon()));
  EXPECT_EQ(Read("a"), Texts());
  EXPECT_EQ(Find("k1"), Texts{"b"});
  EXPECT_TRUE(rows_.Remove({}, Soon()));
}

TEST_F(SharedRowsTest, AServerThatIsAwayIsAnError) {
  client_.is_down = true;
  EXPECT_TRUE(rows_.is_paused());
  const SharedRows::Addition addition = Addition(0, "one");
  EXPECT_FALSE(rows_.Add({&addition, 1}, Soon()));
  EXPECT_FALSE(rows_.Find("alice", Texts{"k"}, Soon()));
  EXPECT_FALSE(rows_.Read("alice", Texts{"a"}, Soon()));
  EXPECT_FALSE(rows_.ReadTexts("alice", Texts{"t"}, Soon()));
}

}  // namespace
}  // namespace kvgate::store::shared
