#include "gateway/local/prefix_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/gateway/fakes.h"
#include "tests/gateway/service/stored_prefix.h"

namespace kvgate::local {

using access::Caller;

namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kText(100, 'x');

Caller Admin(std::string credential = "") {
  return {.role = access::CallerRole::kAdmin, .credential = std::move(credential)};
}
Caller User(std::string credential) {
  return {.role = access::CallerRole::kUser, .credential = std::move(credential)};
}

struct Fixture {
  explicit Fixture(std::string secret_env = {}) : data(std::move(secret_env)) {}
  test::TemporaryData data;
  PrefixService prefixes{{.kv = &data->kv(),
                          .pins = &data->pins(),
                          .hash_seed = data->hash_seed(),
                          .keyring = &data->keyring()}};
  json Rows(const Caller& caller = Admin()) { return json::parse(*prefixes.List(caller))["data"]; }
};

TEST(PrefixServiceTest, WithoutADiskTierItSaysWhy) {
  PrefixService prefixes({.no_disk_reason = "switched off"});
  EXPECT_EQ(prefixes.List(Admin()).error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(prefixes.List(Admin()).error().detail, HasSubstr("switched off"));
  EXPECT_EQ(prefixes.Pin(Admin(), std::string(32, '0'), "").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(prefixes.StartImport().error().code, ErrorCode::kUnavailable);
}

TEST(PrefixServiceTest, PrefixesAreListedNewestFirst) {
  test::FakeKvStore kv;
  for (const int64_t used : {5, 9, 7}) {
    kv.prefixes.push_back({.leaf = {.fingerprint = {}, .hash = {static_cast<uint64_t>(used), 0}},
                           .first = {},
                           .num_blocks = 1,
                           .last_used_unix = used});
  }
  PrefixService prefixes({.kv = &kv});
  const auto list = json::parse(*prefixes.List(Admin()))["data"];
  EXPECT_EQ(list[0]["last_used"], 9);
  EXPECT_EQ(list[2]["last_used"], 5);
  EXPECT_EQ(list[2]["pinned"], false);
}

TEST(PrefixServiceTest, AStoredPrefixIsPinnedShownAndUnpinned) {
  Fixture at;
  const std::string id = at.data.StorePrefix(kText, "");
  const auto pinned = at.prefixes.Pin(
      Admin(), id, R"({"name":"agent","version":"1","priority":4,"ttl_seconds":60})");
  ASSERT_TRUE(pinned) << pinned.error().ToString();
  ASSERT_EQ(at.Rows().size(), 1u);
  const json row = at.Rows()[0];
  EXPECT_EQ(row["id"], id);
  EXPECT_EQ(row["pinned"], true);
  EXPECT_EQ(row["name"], "agent");
  EXPECT_EQ(row["priority"], 4);
  EXPECT_GT(row["expires_at"].get<int64_t>(), 1'700'000'000);
  EXPECT_EQ(at.prefixes.Remove(Admin(), id, false).error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(at.prefixes.Unpin(Admin(), id));
  EXPECT_EQ(at.Rows()[0]["pinned"], false);
  EXPECT_EQ(at.prefixes.Unpin(Admin(), id).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(at.prefixes.Remove(Admin(), id, false));
}

TEST(PrefixServiceTest, ForceUnpinsWhatItRemoves) {
  Fixture at;
  const std::string id = at.data.StorePrefix(kText, "");
  ASSERT_TRUE(at.prefixes.Pin(Admin(), id, ""));
  EXPECT_EQ(at.prefixes.RemoveAll(false).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(at.prefixes.Remove(Admin(), id, true));
  EXPECT_EQ(at.data->pins().size(), 0u);
  ASSERT_TRUE(at.prefixes.Pin(Admin(), at.data.StorePrefix(kText, ""), ""));
  EXPECT_TRUE(at.prefixes.RemoveAll(true));
  EXPECT_EQ(at.Rows().size(), 0u);
}

TEST(PrefixServiceTest, APinWhoseKvIsGoneIsStillListedAndCanBeChanged) {
  Fixture at;
  const std::string id = at.data.StorePrefix(kText, "");
  ASSERT_TRUE(at.prefixes.Pin(Admin(), id, ""));
  at.data->kv().Unpin({.fingerprint = {}, .hash = *ParseBlockHash(id)});
  ASSERT_TRUE(at.data->kv().RemoveAll());
  ASSERT_EQ(at.Rows().size(), 1u);
  EXPECT_EQ(at.Rows()[0]["bytes"], 0);
  EXPECT_EQ(at.Rows()[0]["tokens"], 96);
  ASSERT_TRUE(at.prefixes.Pin(Admin(), id, R"({"priority":9})"));
  EXPECT_EQ(at.Rows()[0]["priority"], 9);
}

TEST(PrefixServiceTest, AnotherTenantsPrefixIsNeitherPinnedNorExported) {
  Fixture at;
  const std::string id = at.data.StorePrefix(kText, TenantOf("Bearer alice"));
  for (const char* other : {"", "Bearer bob"}) {
    EXPECT_EQ(at.prefixes.Pin(Admin(other), id, "").error().code, ErrorCode::kPermissionDenied);
    EXPECT_EQ(at.prefixes.StartExport(Admin(other), id).error().code, ErrorCode::kPermissionDenied);
  }
  EXPECT_TRUE(at.prefixes.StartExport(Admin("Bearer alice"), id));
  EXPECT_TRUE(at.prefixes.Pin(Admin("Bearer alice"), id, ""));
}

TEST(PrefixServiceTest, ToAUserOthersPrefixesAndPinsAreNotThere) {
  Fixture at;
  const Caller alice = User("Bearer alice");
  const Caller bob = User("Bearer bob");
  const std::string one = at.data.StorePrefix(kText, TenantOf("Bearer alice"));
  const std::string two = at.data.StorePrefix(kText, TenantOf("Bearer bob"));
  const std::string nobodys = at.data.StorePrefix(kText, "");
  ASSERT_TRUE(at.prefixes.Pin(alice, one, R"({"name":"secret"})"));
  ASSERT_EQ(at.Rows(alice).size(), 1u);
  EXPECT_EQ(at.Rows(alice)[0]["id"], one);
  ASSERT_EQ(at.Rows(bob).size(), 1u);
  EXPECT_EQ(at.Rows(bob)[0]["id"], two);
  EXPECT_EQ(at.Rows().size(), 3u);
  // Each error must look like the one for an id that nobody has.
  const std::string absent(32, '0');
  const auto is_same = [](const auto& seen, const auto& unknown) {
    return !seen && !unknown && seen.error().code == ErrorCode::kNotFound &&
           unknown.error().code == ErrorCode::kNotFound &&
           seen.error().detail.size() == unknown.error().detail.size() &&
           seen.error().detail.substr(0, 20) == unknown.error().detail.substr(0, 20);
  };
  for (const std::string& id : {one, nobodys}) {
    EXPECT_TRUE(is_same(at.prefixes.Pin(bob, id, ""), at.prefixes.Pin(bob, absent, "")));
    EXPECT_TRUE(is_same(at.prefixes.Unpin(bob, id), at.prefixes.Unpin(bob, absent)));
    EXPECT_TRUE(is_same(at.prefixes.Remove(bob, id, true), at.prefixes.Remove(bob, absent, true)));
    EXPECT_TRUE(is_same(at.prefixes.StartExport(bob, id), at.prefixes.StartExport(bob, absent)));
  }
  EXPECT_EQ(at.Rows().size(), 3u) << "all of them are still there";
  EXPECT_EQ(at.data->pins().size(), 1u);
  EXPECT_TRUE(at.prefixes.StartExport(alice, one));
  EXPECT_TRUE(at.prefixes.Unpin(alice, one));
  EXPECT_TRUE(at.prefixes.Remove(bob, two, false));
}

TEST(PrefixServiceTest, APinnedPrefixWhoseKvIsGoneStaysItsTenants) {
  Fixture at;
  const std::string id = at.data.StorePrefix(kText, TenantOf("Bearer alice"));
  ASSERT_TRUE(at.prefixes.Pin(User("Bearer alice"), id, ""));
  at.data->kv().Unpin({.fingerprint = {}, .hash = *ParseBlockHash(id)});
  ASSERT_TRUE(at.data->kv().RemoveAll());
  EXPECT_EQ(at.Rows(User("Bearer alice")).size(), 1u);
  EXPECT_TRUE(at.Rows(User("Bearer bob")).empty());
  EXPECT_EQ(at.prefixes.Unpin(User("Bearer bob"), id).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(at.prefixes.Unpin(Admin(), id));
}

TEST(PrefixServiceTest, PinsHoldInTheEnginesMemoryToo) {
  Fixture at;
  test::FakeEngine engine({});
  at.prefixes.SetEngine(engine);
  const std::string one = at.data.StorePrefix(kText, "");
  const std::string two = at.data.StorePrefix(std::string(64, 'y'), "");
  ASSERT_TRUE(at.prefixes.Pin(Admin(), one, R"({"name":"agent","version":"1","priority":3})"));
  ASSERT_TRUE(at.prefixes.Pin(Admin(), two, R"({"name":"agent","version":"2"})"));
  ASSERT_TRUE(at.prefixes.Unpin(Admin(), two));
  const auto pins = engine.pins();
  ASSERT_EQ(pins.size(), 4u);
  EXPECT_EQ(pins[0].tokens, test::TemporaryData::TokensOf(kText.substr(0, 96)));
  EXPECT_EQ(pins[0].priority, 3);
  EXPECT_EQ(pins[1].tokens, pins[0].tokens) << "the older version is let go";
  EXPECT_EQ(pins[1].priority, 0);
  EXPECT_EQ(pins[2].priority, 1);
  EXPECT_EQ(pins[3].priority, 0);
  EXPECT_EQ(pins[3].tokens.size(), 64u);
}

TEST(PrefixServiceTest, AListNamesTheModelAndShowsAPrefixsWordsToItsTenantAlone) {
  Fixture at;
  test::FakeEngine engine({});
  const auto text = [](const std::vector<TokenId>& tokens) {
    return std::string(tokens.begin(), tokens.end());
  };
  const std::string words = "Secret\n\tplan: " + kText;
  at.data.StorePrefix(words.substr(0, 96), TenantOf("Bearer alice"), engine.info().kv_fingerprint);
  EXPECT_FALSE(at.Rows()[0].contains("model")) << "no engine, no model to tell";
  at.prefixes.SetEngine(engine, {.name = "m", .text = text});
  const json own = at.Rows(User("Bearer alice"))[0];
  EXPECT_EQ(own["model"], "m");
  EXPECT_EQ(own["preview"], "Secret plan: " + kText.substr(0, 18));
  const json others = at.Rows(Admin("Bearer root"))[0];
  EXPECT_EQ(others["model"], "m");
  EXPECT_FALSE(others.contains("preview"));
  EXPECT_TRUE(at.Rows(User("Bearer bob")).empty());
}

TEST(PrefixServiceTest, HitsAndTiersAreShownWithAnEngineAndToTheirTenantAlone) {
  Fixture at;
  test::FakeEngine engine({});
  const std::string id =
      at.data.StorePrefix(kText, TenantOf("Bearer alice"), engine.info().kv_fingerprint);
  EXPECT_EQ(at.Rows()[0]["tier"], "disk");
  EXPECT_FALSE(at.Rows()[0].contains("hits")) << "no engine, nobody who would count";
  EXPECT_FALSE(json::parse(*at.prefixes.List(Admin())).contains("hits_since"));
  at.prefixes.SetEngine(engine);
  const auto chain = *at.data->kv().Chain(*ParseBlockHash(id));
  at.data->kv().CountHits(chain, {.num_hits = 2, .num_tokens = 192, .compute_us = 34'567});
  engine.places[chain[0].hash] = engine::KvPlace::kDevice;
  engine.places[chain[2].hash] = engine::KvPlace::kHost;
  const json row = at.Rows(User("Bearer alice"))[0];
  EXPECT_EQ(row["hits"], 2);
  EXPECT_EQ(row["shared_hits"], 0);
  EXPECT_EQ(row["saved_tokens"], 192);
  EXPECT_EQ(row["saved_ms"], 34.5);
  EXPECT_EQ(row["tier"], "host");
  EXPECT_EQ(row["tiers"], json({{"device", 32}, {"host", 32}, {"disk", 32}}));
  EXPECT_GT(json::parse(*at.prefixes.List(Admin()))["hits_since"], 1'700'000'000'000'000);
  EXPECT_TRUE(at.Rows(User("Bearer bob")).empty());
  engine.is_busy = true;
  EXPECT_TRUE(at.Rows()[0]["tier"].is_null());
  EXPECT_EQ(at.Rows()[0]["hits"], 2);
}

TEST(PrefixServiceTest, AFileOfAnotherSecretIsRefusedWithWhatToDo) {
  Fixture from;
  Fixture to;
  const auto exporter = from.prefixes.StartExport(
      Admin("Bearer a"), from.data.StorePrefix(kText, TenantOf("Bearer a")));
  ASSERT_TRUE(exporter);
  std::string piece;
  ASSERT_TRUE((*exporter)->Next(piece));
  const auto refused = (*to.prefixes.StartImport())->Feed(piece);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(refused.error().detail, HasSubstr("set the same store.secret_env"));
}

TEST(PrefixServiceTest, SaltsAreSecretsOfTheDirectory) {
  Fixture one;
  Fixture two;
  EXPECT_NE(one.prefixes.SaltOf("a"), one.prefixes.SaltOf("b"));
  EXPECT_NE(one.prefixes.SaltOf("a"), two.prefixes.SaltOf("a"));
  EXPECT_NE(one.prefixes.SaltOf(""), two.prefixes.SaltOf(""));
  const std::string before = one.prefixes.SaltOf("a");
  one.data.Reopen();
  EXPECT_EQ(kv::TenantSalt(one.data->keyring(), "a"), before);
}

TEST(PrefixServiceTest, WhatIsExportedIsImportedWhereTheSecretIsShared) {
  ASSERT_EQ(::setenv("KVGATE_TEST_SHARED_SECRET", Keyring::GenerateSecret().c_str(), 1), 0);
  Fixture from("KVGATE_TEST_SHARED_SECRET");
  Fixture to("KVGATE_TEST_SHARED_SECRET");
  const auto exporter = from.prefixes.StartExport(
      Admin("Bearer a"), from.data.StorePrefix(kText, TenantOf("Bearer a")));
  ASSERT_TRUE(exporter);
  const auto importer = to.prefixes.StartImport();
  ASSERT_TRUE(importer);
  std::string piece;
  bool more = true;
  while (more) {
    more = (*exporter)->Next(piece).value();
    ASSERT_TRUE((*importer)->Feed(piece));
  }
  const json report = json::parse(PrefixService::Describe((*importer)->Finish().value()));
  EXPECT_EQ(report["imported"], 3);
  EXPECT_EQ(report["dropped"], 0);
  EXPECT_TRUE(report["reason"].is_null());
  EXPECT_EQ(to.Rows()[0]["id"], report["id"]);
  EXPECT_TRUE(to.prefixes.Pin(Admin("Bearer a"), report["id"].get<std::string>(), ""));
}

TEST(PrefixServiceTest, BadIdsAndOptionsAreNamed) {
  Fixture at;
  EXPECT_EQ(at.prefixes.Pin(Admin(), "xyz", "").error().field, "id");
  EXPECT_EQ(at.prefixes.Unpin(Admin(), "xyz").error().field, "id");
  EXPECT_EQ(at.prefixes.Remove(Admin(), "xyz", false).error().field, "id");
  EXPECT_EQ(at.prefixes.Pin(Admin(), std::string(32, '0'), "").error().code, ErrorCode::kNotFound);
  const std::string id = at.data.StorePrefix(kText, "");
  EXPECT_EQ(at.prefixes.Pin(Admin(), id, R"({"priority":0})").error().field, "priority");
  EXPECT_EQ(at.prefixes.Pin(Admin(), id, R"({"version":"1"})").error().field, "name");
}

}  // namespace
}  // namespace kvgate::local
