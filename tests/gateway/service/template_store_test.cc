#include "gateway/service/template_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/templates/masked_line.h"
#include "gateway/prompt/templates/text_lines.h"
#include "store/directory_migration.h"
#include "store/file/sealed_kinds.h"
#include "tests/store/memory_meta_store.h"
#include "tests/store/shared/memory_client.h"
#include "tests/wait_until.h"

namespace kvgate::service {
namespace {

using prompt::templates::LineForm;
using prompt::templates::Observation;
using prompt::templates::Place;
using prompt::templates::Template;
using prompt::templates::Templates;
using prompt::templates::TextLines;
using store::MemoryMetaStore;
using store::file::kTemplatesKind;
using store::meta::MetaTable;

constexpr std::string_view kRows = "V";

LineForm FormIn(const std::string& line) {
  const std::string text = "rules\n" + line + "\nend";
  return FormOf(Place::kTool, TextLines(text, nullptr), 1, text);
}

void See(Templates& templates, const std::string& before, const std::string& now,
         const std::string& model = "opus", const std::string& tenant = "acme") {
  Observation seen{.before = FormIn(before),
                   .now = FormIn(now),
                   .pattern = prompt::templates::MaskLine(now).text,
                   .line_tokens = 10,
                   .stake_tokens = 1000};
  seen.change = seen.before.mask == seen.now.mask ? prompt::templates::LineChange::kValues
                                                  : prompt::templates::LineChange::kWords;
  templates.Learn(Templates::ScopeOf(tenant, model), {.changes = {seen}, .beginnings = {}});
}

class TemplateStoreTest : public testing::Test {
 protected:
  std::unique_ptr<TemplateStore> Open(
      Templates& templates, std::chrono::milliseconds write_interval = std::chrono::hours(1),
      store::shared::SharedFeed* shared = nullptr, MemoryMetaStore* meta = nullptr) {
    return std::make_unique<TemplateStore>(
        TemplateStore::Options{.meta = meta != nullptr ? *meta : meta_,
                               .templates = templates,
                               .shared = shared,
                               .retention = std::chrono::hours(1),
                               .write_interval = write_interval,
                               .now_us = [this] { return now_us_.load(); }});
  }
  // Learns one line for each of the models, and closes the store.
  void Keep(const std::vector<std::string>& models) {
    Templates templates{Templates::Options{}};
    const auto kept = Open(templates);
    for (const std::string& model : models) {
      See(templates, "The build is 17 now", "The build is 18 now", model);
    }
  }
  // Returns the models of which something is known after a restart.
  std::vector<std::string> Known() {
    Templates templates{Templates::Options{}};
    const auto kept = Open(templates);
    std::vector<std::string> models;
    for (const Templates::Learnt& learnt : templates.List("acme")) {
      models.push_back(learnt.scope.model);
    }
    return models;
  }
  std::vector<std::string> Keys() const {
    std::vector<std::string> keys;
    EXPECT_TRUE(
        meta_.Scan(MetaTable::kPrefixes, kRows, [&](std::string_view key, std::string_view) {
          keys.emplace_back(key);
          return true;
        }));
    return keys;
  }
  std::string ValueOf(const std::string& key) const {
    return meta_.Get(MetaTable::kPrefixes, key)->value_or("");
  }

  MemoryMetaStore meta_;
  std::atomic<int64_t> now_us_ = 1'000'000'000'000;
};

TEST_F(TemplateStoreTest, AnotherProcessKnowsWhatTheFirstOneLearnt) {
  std::vector<Templates::Learnt> before;
  {
    Templates templates{Templates::Options{}};
    const auto kept = Open(templates);
    See(templates, "The build is 17 now", "The build is 18 now");
    See(templates, "You work on branch main today", "You work on branch fix today");
    const uint64_t slot = templates.Known(Templates::ScopeOf("acme", "opus"))->slots()[0]->id;
    templates.Learn(Templates::ScopeOf("acme", "opus"),
                    {.changes = {}, .beginnings = {{.slot = slot, .line = 5}}});
    before = templates.List("acme");
  }
  Templates templates{Templates::Options{}};
  const auto kept = Open(templates);
  const std::vector<Templates::Learnt> now = templates.List("acme");
  ASSERT_EQ(now.size(), 1U);
  EXPECT_EQ(now[0].scope.model, "opus");
  ASSERT_EQ(now[0].templates.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const Template& a = before[0].templates[i];
    const Template& b = now[0].templates[i];
    EXPECT_EQ(*a.slot, *b.slot);
    EXPECT_EQ(a.pattern, b.pattern);
    EXPECT_EQ(WhyOf(a), WhyOf(b));
    EXPECT_EQ(a.value_changes, b.value_changes);
    EXPECT_EQ(a.conversations, b.conversations);
    EXPECT_EQ(a.begun, b.begun);
    EXPECT_EQ(a.last_line, b.last_line);
  }
  EXPECT_TRUE(now[0].templates[0].is_slot);
  EXPECT_TRUE(templates.List("other").empty());
}

TEST_F(TemplateStoreTest, WhatIsReadIsNotWrittenAgain) {
  Keep({"opus", "sonnet"});
  EXPECT_EQ(Keys().size(), 2U);
  const int written = meta_.num_batches;
  EXPECT_EQ(Known().size(), 2U);
  EXPECT_EQ(meta_.num_batches, written);
}

TEST_F(TemplateStoreTest, WhatIsLearntIsWrittenWhileTheProcessRuns) {
  Templates templates{Templates::Options{}};
  const auto kept = Open(templates, std::chrono::milliseconds(5));
  See(templates, "The build is 17 now", "The build is 18 now");
  EXPECT_TRUE(test::WaitUntil([&] { return Keys().size() == 1; }, "it is written"));
  const std::string before = ValueOf(Keys().at(0));
  See(templates, "The build is 18 now", "The build is 19 now");
  EXPECT_TRUE(test::WaitUntil([&] { return ValueOf(Keys().at(0)) != before; }, "it is replaced"));
  EXPECT_EQ(Keys().size(), 1U);
}

TEST_F(TemplateStoreTest, WhatADiskRefusedIsWrittenWhenItTakesItAgain) {
  for (std::atomic<bool>* failure : {&meta_.refuses, &meta_.has_no_memory}) {
    meta_.num_refused = 0;
    const size_t num_before = Keys().size();
    Templates templates{Templates::Options{}};
    const auto kept = Open(templates, std::chrono::milliseconds(5));
    *failure = true;
    See(templates, "The build is 17 now", "The build is 18 now", std::to_string(num_before));
    EXPECT_TRUE(test::WaitUntil([&] { return meta_.num_refused > 0; }, "a write is tried"));
    See(templates, "The build is 17 now", "The build is 18 now", std::to_string(num_before + 1));
    EXPECT_EQ(Keys().size(), num_before);
    *failure = false;
    EXPECT_TRUE(
        test::WaitUntil([&] { return Keys().size() == num_before + 2; }, "both are written"));
  }
  {
    Templates templates{Templates::Options{}};
    const auto kept = Open(templates, std::chrono::milliseconds(5));
    meta_.num_refused = 0;
    meta_.refuses = true;
    See(templates, "The build is 17 now", "The build is 18 now", "a");
    EXPECT_TRUE(test::WaitUntil([&] { return meta_.num_refused > 0; }, "a write is tried"));
    See(templates, "The build is 17 now", "The build is 18 now", "b");
    meta_.refuses = false;
  }
  EXPECT_EQ(Keys().size(), 6U) << "the end writes what failed, and what came behind it";
}

TEST_F(TemplateStoreTest, ADamagedRowIsDroppedAndTheOthersStay) {
  Keep({"opus", "sonnet"});
  const std::string key = Keys().at(0);
  std::string value = ValueOf(key);
  value.back() ^= 1;
  ASSERT_TRUE(meta_.Put(MetaTable::kPrefixes, key, value));
  ASSERT_TRUE(meta_.Put(MetaTable::kPrefixes, "V", "short"));
  EXPECT_EQ(Known().size(), 1U);
  EXPECT_EQ(Keys().size(), 1U);
}

TEST_F(TemplateStoreTest, ARowOfAnotherModelsPlaceIsDropped) {
  Keep({"opus", "sonnet"});
  ASSERT_TRUE(meta_.Put(MetaTable::kPrefixes, Keys().at(0), ValueOf(Keys().at(1))));
  EXPECT_EQ(Known().size(), 1U);
}

TEST_F(TemplateStoreTest, WithAnotherSecretNothingIsKnown) {
  Keep({"opus"});
  meta_.SetKeyring(Keyring::Generate());
  EXPECT_TRUE(Known().empty());
  EXPECT_TRUE(Keys().empty());
}

TEST_F(TemplateStoreTest, RowsFollowANewSecret) {
  const std::string old_secret = Keyring::GenerateSecret();
  const std::string new_secret = Keyring::GenerateSecret();
  const auto use = [&](const std::string& secrets) {
    auto ring = Keyring::Parse(secrets, "test");
    ASSERT_TRUE(ring) << ring.error().ToString();
    meta_.SetKeyring(std::move(*ring));
  };
  use(old_secret);
  Keep({"opus"});
  const std::string key = Keys().at(0);
  use(new_secret + "\n" + old_secret);
  EXPECT_EQ(Known(), std::vector<std::string>{"opus"});
  EXPECT_EQ(Keys(), std::vector<std::string>{key}) << "the last secret names rows";
  EXPECT_TRUE(store::IsSealedWithFirst(meta_.keyring(), ValueOf(key)));
  use(new_secret);
  EXPECT_EQ(Known(), std::vector<std::string>{"opus"});
  ASSERT_EQ(Keys().size(), 1U);
  EXPECT_NE(Keys().at(0), key);
  EXPECT_EQ(Known(), std::vector<std::string>{"opus"});
}

TEST_F(TemplateStoreTest, WhatLeavesMemoryLeavesTheDisk) {
  Keep({"opus"});
  {
    Templates templates({.bytes_max = 20'000, .slots_max = 8});
    const auto kept = Open(templates);
    EXPECT_EQ(templates.List("acme").size(), 1U);
    for (int i = 0; i < 100; ++i) {
      See(templates, "The build is 17 now", "The build is 18 now", std::to_string(i));
    }
    EXPECT_LE(templates.num_bytes(), 20'000U);
  }
  const std::vector<std::string> known = Known();
  EXPECT_EQ(std::count(known.begin(), known.end(), "opus"), 0);
  EXPECT_EQ(Keys().size(), known.size());
  EXPECT_LT(known.size(), 50U);
  {
    Templates templates({.bytes_max = 3'000, .slots_max = 8});
    const auto kept = Open(templates);
  }
  EXPECT_LT(Keys().size(), 5U) << "a smaller memory";
}

TEST_F(TemplateStoreTest, OldRowsAreDeleted) {
  Keep({"opus"});
  now_us_ += 3'000'000'000;
  {
    Templates templates{Templates::Options{}};
    const auto kept = Open(templates, std::chrono::milliseconds(5));
    See(templates, "The build is 17 now", "The build is 18 now", "sonnet");
    EXPECT_TRUE(test::WaitUntil([&] { return Keys().size() == 2; }, "the new one is written"));
    now_us_ += 601'000'000;
    EXPECT_TRUE(test::WaitUntil([&] { return Keys().size() == 1; }, "the old one is deleted"));
    See(templates, "The build is 18 now", "The build is 19 now", "opus");
    EXPECT_TRUE(test::WaitUntil([&] { return Keys().size() == 2; }, "what is used is back"));
  }
  now_us_ += 3'001'000'000;
  EXPECT_EQ(Known(), std::vector<std::string>{"opus"});
  EXPECT_EQ(Keys().size(), 1U);
}

TEST_F(TemplateStoreTest, APurgeLeavesTheRowsOfOthers) {
  Keep({"opus"});
  ASSERT_TRUE(meta_.Put(MetaTable::kPrefixes, "T1", "prompt"));
  ASSERT_TRUE(meta_.Put(MetaTable::kPrefixes, "B1", "branch"));
  EXPECT_TRUE(TemplateStore::Purge(meta_));
  EXPECT_TRUE(Keys().empty());
  EXPECT_EQ(meta_.CountRows(MetaTable::kPrefixes, ""), 2U);
}

// No byte of any value makes it take memory or time beyond the bytes themselves.
TEST_F(TemplateStoreTest, BytesThatAreNoRowAreRefused) {
  Keep({"opus"});
  const std::string key = Keys().at(0);
  const auto body = Unseal(kTemplatesKind, meta_.keyring(), key, ValueOf(key));
  ASSERT_TRUE(body);
  const auto known_of = [&](const std::string& bytes) {
    const std::string value = Seal(kTemplatesKind, meta_.keyring(), key, bytes);
    EXPECT_TRUE(meta_.Put(MetaTable::kPrefixes, key, value));
    const size_t num_known = Known().size();
    EXPECT_TRUE(TemplateStore::Purge(meta_));
    return num_known;
  };
  EXPECT_EQ(known_of(body->body), 1U);
  EXPECT_EQ(known_of(body->body + "x"), 0U);
  for (size_t size = 0; size < body->body.size(); ++size) {
    EXPECT_EQ(known_of(body->body.substr(0, size)), 0U) << size;
  }
  for (size_t at = 0; at < body->body.size(); ++at) {
    std::string damaged = body->body;
    damaged[at] = '\xFF';
    EXPECT_LE(known_of(damaged), 1U) << at;
  }
}

TEST_F(TemplateStoreTest, ALongPatternIsCutBetweenCharacters) {
  std::string word;
  for (int i = 0; i < 3000; ++i) word += "\xC3\xA9";
  {
    Templates templates{Templates::Options{}};
    const auto kept = Open(templates);
    See(templates, "The x" + word + " is 17 now", "The x" + word + " is 18 now");
  }
  Templates templates{Templates::Options{}};
  const auto kept = Open(templates);
  ASSERT_EQ(templates.List("acme").size(), 1U);
  const std::string pattern = templates.List("acme")[0].templates[0].pattern;
  EXPECT_EQ(pattern, ("The x" + word).substr(0, pattern.size()));
  EXPECT_EQ(pattern.size(), 4095U);
}

TEST_F(TemplateStoreTest, NoWordAndNoNameIsOnTheDiskInClear) {
  Keep({"opus"});
  for (const std::string_view word : {"build", "The", "now", "opus", "acme"}) {
    EXPECT_EQ(Keys().at(0).find(word), std::string::npos) << word;
    EXPECT_EQ(ValueOf(Keys().at(0)).find(word), std::string::npos) << word;
  }
}

TEST_F(TemplateStoreTest, GatewaysThatShareAStoreLearnFromEachOther) {
  constexpr std::chrono::milliseconds kInterval{5};
  store::shared::MemoryServer server;
  store::shared::MemoryClient client(server);
  const std::unique_ptr<Keyring> ring = Keyring::Generate();
  store::shared::SharedFeed feed({.name = "templates"}, client, *ring);
  store::shared::SharedFeed other_feed({.name = "templates"}, client, *ring);
  MemoryMetaStore other_meta;
  Templates templates{Templates::Options{}};
  Templates others{Templates::Options{}};
  const auto kept = Open(templates, kInterval, &feed);
  const auto other = Open(others, kInterval, &other_feed, &other_meta);
  const auto num_lines = [](const Templates& of) {
    const std::vector<Templates::Learnt> learnt = of.List("acme");
    return learnt.size() == 1 ? learnt[0].templates.size() : 0;
  };
  See(templates, "The build is 17 now", "The build is 18 now");
  EXPECT_TRUE(test::WaitUntil([&] { return num_lines(others) == 1; }, "they hear of it"));
  EXPECT_EQ(others.Known(Templates::ScopeOf("acme", "opus"))->slots().size(), 1u);
  See(others, "You work on branch main today", "You work on branch fix today");
  EXPECT_TRUE(test::WaitUntil([&] { return num_lines(templates) == 2; }, "so do we"));
  // A conversation that begins with a line is kept here, and no news to others.
  const int written = other_meta.num_batches;
  const uint64_t slot = others.Known(Templates::ScopeOf("acme", "opus"))->slots()[0]->id;
  others.Learn(Templates::ScopeOf("acme", "opus"),
               {.changes = {}, .beginnings = {{.slot = slot, .line = 5}}});
  EXPECT_TRUE(test::WaitUntil([&] { return other_meta.num_batches > written; }, "it is kept"));
  See(others, "The build is 18 now", "The build is 19 now");
  const auto num_changes = [&] { return templates.List("acme")[0].templates[0].num_changes(); };
  EXPECT_TRUE(test::WaitUntil([&] { return num_changes() == 2; }, "they have seen more"));
  EXPECT_EQ(templates.List("other").size(), 0u);
  const std::lock_guard lock(server.mutex);
  EXPECT_EQ(server.num_entries, 3);
}

TEST_F(TemplateStoreTest, AGatewayThatBeginsHearsWhatIsKnownAtOnce) {
  store::shared::MemoryServer server;
  store::shared::MemoryClient client(server);
  const std::unique_ptr<Keyring> ring = Keyring::Generate();
  store::shared::SharedFeed feed({.name = "templates"}, client, *ring);
  store::shared::SharedFeed other_feed({.name = "templates"}, client, *ring);
  {
    Templates templates{Templates::Options{}};
    const auto kept = Open(templates, std::chrono::hours(1), &feed);
    See(templates, "The build is 17 now", "The build is 18 now");
  }
  MemoryMetaStore other_meta;
  Templates others{Templates::Options{}};
  const auto other = Open(others, std::chrono::hours(1), &other_feed, &other_meta);
  EXPECT_TRUE(test::WaitUntil([&] { return others.List("acme").size() == 1; }, "it is heard"));
}

}  // namespace
}  // namespace kvgate::service
