#include "gateway/local/maintenance.h"

#include <gtest/gtest.h>

#include "tests/gateway/fakes.h"
#include "tests/gateway/service/stored_prefix.h"
#include "tests/manual_clock.h"
#include "tests/wait_until.h"

namespace kvgate::local {
namespace {

using std::chrono::milliseconds;
using test::Script;
using test::TemporaryData;

struct Fixture {
  explicit Fixture(Script script = {}) : engine(std::move(script)) {
    engine.mutable_info().kv_fingerprint = {1, 1};
    engine.mutable_info().model_fingerprint = {2, 2};
    engine.mutable_info().num_kv_blocks = 100;
  }
  // Stores and pins `size` tokens, by default for the engine's model.
  void Pin(char text, size_t size, int priority, Fingerprint kv = {1, 1},
           Fingerprint model = {2, 2}) {
    const std::string bytes(size, text);
    const std::string id = data.StorePrefix(bytes, "tenant", kv);
    ASSERT_TRUE(data->pins().Put({.leaf = {.fingerprint = kv, .hash = *ParseBlockHash(id)},
                                  .model = model,
                                  .name = {},
                                  .version = {},
                                  .tenant = "tenant",
                                  .priority = priority,
                                  .tokens = TemporaryData::TokensOf(bytes)}));
  }
  std::unique_ptr<Maintenance> Start(tier::WriteAdmission* admission = nullptr) {
    return std::make_unique<Maintenance>(Maintenance::Parts{.engine = engine,
                                                            .prefixes = prefixes,
                                                            .meta = &data->meta(),
                                                            .write_admission = admission,
                                                            .poll = milliseconds(2),
                                                            .period = milliseconds(20)});
  }

  TemporaryData data;
  PrefixService prefixes{{.kv = &data->kv(),
                          .pins = &data->pins(),
                          .hash_seed = data->hash_seed(),
                          .keyring = &data->keyring()}};
  test::FakeEngine engine;
};

TEST(MaintenanceTest, PinnedPrefixesComeInByPriority) {
  Fixture at;
  at.Pin('a', 64, 1);
  at.Pin('b', 96, 9);
  const auto maintenance = at.Start();
  ASSERT_TRUE(test::WaitUntil([&] { return maintenance->num_done() == 2; }, "prefixes done: 2"));
  EXPECT_EQ(at.engine.Stats().num_requests, 2u);
  const auto pins = at.engine.pins();
  ASSERT_EQ(pins.size(), 2u);
  EXPECT_EQ(pins[0].priority, 9);
  EXPECT_EQ(pins[0].tokens.size(), 96u);
  EXPECT_EQ(at.engine.last_request().prompt.size(), 64u);
  EXPECT_EQ(at.engine.last_request().cache_salt, at.prefixes.SaltOf("tenant"));
  EXPECT_EQ(at.engine.last_request().max_tokens, 0);
}

TEST(MaintenanceTest, APrefixThatIsPinnedMeanwhileComesInWithoutARestart) {
  Fixture at;
  at.Pin('a', 64, 9);
  const auto maintenance = at.Start();
  ASSERT_TRUE(test::WaitUntil([&] { return maintenance->num_done() == 1; }, "prefixes done: 1"));
  at.Pin('b', 96, 1);
  maintenance->BringInSoon(BlockHash{});  // one that was unpinned again
  maintenance->BringInSoon(at.data->pins().List()[1].leaf.hash);
  ASSERT_TRUE(test::WaitUntil([&] { return maintenance->num_done() == 2; }, "prefixes done: 2"));
  EXPECT_EQ(at.engine.Stats().num_requests, 2u);
  EXPECT_EQ(at.engine.last_request().prompt.size(), 96u);
}

TEST(MaintenanceTest, AnotherModelsPrefixesAndMoreThanHalfOfMemoryStayWhereTheyAre) {
  Fixture at;
  at.Pin('a', 64, 5, {7, 7}, {8, 8});
  at.Pin('b', size_t{32} * 60, 1);
  const auto maintenance = at.Start();
  ASSERT_TRUE(test::WaitUntil([&] { return maintenance->num_done() == 2; }, "prefixes done: 2"));
  EXPECT_EQ(at.engine.Stats().num_requests, 0u);
  EXPECT_EQ(at.engine.pins().size(), 1u);
}

TEST(MaintenanceTest, ARequestThatComesIsNotKeptWaiting) {
  Fixture at({.first_delay = milliseconds(150)});
  at.Pin('a', 64, 1);
  const auto maintenance = at.Start();
  ASSERT_TRUE(test::WaitUntil([&] { return at.engine.num_running() == 1; }, "a prefill runs"));
  engine::GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 1;
  const auto sink = std::make_shared<PrefillSink>(nullptr);
  request.sink = sink;
  ASSERT_TRUE(at.engine.Submit(std::move(request)));
  ASSERT_TRUE(
      test::WaitUntil([&] { return at.engine.num_cancelled() == 1; }, "the prefill is cancelled"));
  EXPECT_FALSE(sink->finish()) << "the prefix gave way at once";
  ASSERT_TRUE(test::WaitUntil([&] { return maintenance->num_done() == 1; }, "prefixes done: 1"));
  EXPECT_TRUE(sink->finish());
  EXPECT_EQ(at.engine.Stats().num_requests, 3u) << "it was taken up again";
}

TEST(MaintenanceTest, OfOtherNumericsThePinFollowsToTheNewKeysOnceTheyAreStored) {
  Fixture at;
  at.Pin('a', 64, 1, {7, 7});
  const auto maintenance = at.Start();
  ASSERT_TRUE(test::WaitUntil([&] { return at.engine.Stats().num_requests == 1; },
                              "the engine has a request"));
  const std::string moved = at.data.StorePrefix(std::string(64, 'a'), "tenant", {1, 1});
  ASSERT_TRUE(test::WaitUntil([&] { return maintenance->num_done() == 1; }, "prefixes done: 1"));
  ASSERT_EQ(at.data->pins().List().size(), 1u);
  EXPECT_EQ(ToHex(at.data->pins().List()[0].leaf.hash), moved);
}

TEST(MaintenanceTest, EndsAtOnceWhateverIsUnderWay) {
  Fixture at({.first_delay = std::chrono::seconds(60)});
  at.Pin('a', 64, 1);
  auto maintenance = at.Start();
  ASSERT_TRUE(test::WaitUntil([&] { return at.engine.num_running() == 1; }, "a prefill runs"));
  maintenance.reset();
  EXPECT_EQ(at.engine.num_running(), 0);
}

TEST(MaintenanceTest, ExpiredPinsAreDropped) {
  const test::ManualClock clock;
  Fixture at;
  at.Pin('a', 64, 1);
  store::meta::Pin pin = at.data->pins().List()[0];
  pin.expires_unix = WallClock::NowUnix() + 60;
  ASSERT_TRUE(at.data->pins().Put(pin));
  test::ManualClock::Advance(std::chrono::seconds(60));
  const auto maintenance = at.Start();
  EXPECT_TRUE(test::WaitUntil([&] { return at.data->pins().size() == 0; }, "the pin is gone"));
}

TEST(MaintenanceTest, TheSpentBudgetIsKeptWhileItRunsAndAtItsEnd) {
  Fixture at;
  constexpr uint64_t kBudget = uint64_t{1} << 30;
  tier::WriteAdmission before({.bytes_per_day = kBudget, .burst_bytes_min = 1});
  auto maintenance = at.Start(&before);
  ASSERT_TRUE(before.Admit(1000, tier::WritePriority::kCommon));
  const auto restored = [&] {
    tier::WriteAdmission after({.bytes_per_day = kBudget, .burst_bytes_min = 1});
    RestoreWriteBudget(at.data->meta(), after);
    return after.stats().spent_bytes;
  };
  EXPECT_TRUE(test::WaitUntil([&] { return restored() == 1000; }, "the budget is restored"));
  ASSERT_TRUE(before.Admit(500, tier::WritePriority::kCommon));
  maintenance.reset();
  EXPECT_EQ(restored(), 1500u);
}

}  // namespace
}  // namespace kvgate::local
