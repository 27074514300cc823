#include "gateway/local/warm_job.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/service/service.h"
#include "tests/gateway/fakes.h"
#include "tests/gateway/service/stored_prefix.h"
#include "tests/wait_until.h"

namespace kvgate::local {
namespace {

using nlohmann::json;
using test::Script;
using test::TemporaryData;

struct Fixture {
  explicit Fixture(Script script = {}) : engine(std::move(script)) {}

  Result<std::unique_ptr<WarmJob>> Start(const std::string& text,
                                         dialect::own::PinOptions pin = {}) {
    return WarmJob::Start({.engine = engine,
                           .prefixes = prefixes,
                           .tokens = TemporaryData::TokensOf(text),
                           .tenant = "tenant",
                           .pin = std::move(pin),
                           .store_timeout = std::chrono::milliseconds(50)});
  }
  static Result<std::string> Wait(WarmJob& job) {
    EXPECT_TRUE(test::WaitUntil([&] { return job.Poll(); }, "the job is done"));
    return job.Finish();
  }

  TemporaryData data;
  PrefixService prefixes{{.kv = &data->kv(),
                          .pins = &data->pins(),
                          .hash_seed = data->hash_seed(),
                          .keyring = &data->keyring()}};
  test::FakeEngine engine;
};

TEST(WarmJobTest, OnlyPrefillsAndSaysWhatIsStored) {
  Fixture at;
  const std::string text(100, 'x');
  const std::string id = at.data.StorePrefix(text, "tenant");
  const auto job = at.Start(text);
  ASSERT_TRUE(job) << job.error().ToString();
  const json body = json::parse(Fixture::Wait(**job).value());
  EXPECT_EQ(at.engine.last_request().max_tokens, 0);
  EXPECT_EQ(at.engine.last_request().cache_salt, at.prefixes.SaltOf("tenant"));
  EXPECT_EQ(at.engine.last_request().num_stable_tokens, 100);
  EXPECT_EQ(body["id"], id);
  EXPECT_EQ(body["tokens"], 100);
  EXPECT_EQ(body["blocks"], 3);
  EXPECT_EQ(body["stored"], true);
  EXPECT_EQ(body["pinned"], false);
  EXPECT_TRUE(at.engine.pins().empty());
}

TEST(WarmJobTest, PinsWhatItWarmedInMemoryBeforeItIsComputed) {
  Fixture at;
  const std::string text(70, 'x');
  const std::string id = at.data.StorePrefix(text, "tenant");
  const auto job = at.Start(text, {.pin = true, .name = "agent", .version = {}, .priority = 6});
  ASSERT_TRUE(job);
  ASSERT_FALSE(at.engine.pins().empty());
  EXPECT_EQ(at.engine.pins()[0].priority, 6);
  EXPECT_EQ(json::parse(Fixture::Wait(**job).value())["pinned"], true);
  const auto pin = at.data->pins().Find(*ParseBlockHash(id));
  ASSERT_TRUE(pin);
  EXPECT_EQ(pin->name, "agent");
  EXPECT_EQ(pin->tenant, "tenant");
  EXPECT_EQ(pin->tokens.size(), 64u);
}

TEST(WarmJobTest, KvThatNeverReachesTheDiskIsReportedAsNotStored) {
  Fixture at;
  const auto job = at.Start(std::string(64, 'x'));
  ASSERT_TRUE(job);
  EXPECT_EQ(json::parse(Fixture::Wait(**job).value())["stored"], false);
}

TEST(WarmJobTest, APinThatCannotBeKeptIsAnErrorAndPinsNothing) {
  Fixture at;
  const auto job = at.Start(std::string(64, 'x'), {.pin = true, .name = {}, .version = "1"});
  ASSERT_TRUE(job);
  EXPECT_EQ(Fixture::Wait(**job).error().field, "name");
  EXPECT_EQ(at.engine.pins().back().priority, 0);
}

TEST(WarmJobTest, LessThanABlockAndPinsWithoutADiskAreRefused) {
  Fixture at;
  EXPECT_EQ(at.Start(std::string(31, 'x')).error().code, ErrorCode::kInvalidArgument);
  PrefixService no_disk({.no_disk_reason = "switched off"});
  const auto job = WarmJob::Start({.engine = at.engine,
                                   .prefixes = no_disk,
                                   .tokens = TemporaryData::TokensOf(std::string(40, 'x')),
                                   .tenant = {},
                                   .pin = {.pin = true, .name = {}, .version = {}}});
  EXPECT_EQ(job.error().code, ErrorCode::kUnavailable);
}

TEST(WarmJobTest, GivenUpItCancelsThePrefill) {
  Fixture at({.first_delay = std::chrono::seconds(60)});
  {
    const auto job = at.Start(std::string(64, 'x'));
    ASSERT_TRUE(job);
    EXPECT_FALSE((*job)->Poll());
  }
  EXPECT_TRUE(test::WaitUntil([&] { return at.engine.num_running() == 0; }, "the prefill ends"));
  EXPECT_EQ(at.engine.num_cancelled(), 1);
}

TEST(WarmJobTest, AChatIsWarmedWithoutTheOpeningOfTheAnswer) {
  test::Gateway gateway;
  const std::string content(60, 'c');
  const auto job = gateway.service.StartWarm(
      {.body = R"({"model":"local","messages":[{"role":"system","content":")" + content + R"("}]})",
       .credential = {}});
  ASSERT_TRUE(job) << job.error().ToString();
  const std::string expected = "system: " + content + "\n";
  EXPECT_EQ(gateway.engine.last_request().prompt, TemporaryData::TokensOf(expected));
}

}  // namespace
}  // namespace kvgate::local
