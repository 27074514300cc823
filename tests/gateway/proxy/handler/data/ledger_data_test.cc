#include "gateway/proxy/handler/data/ledger_data.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "gateway/ledger/ledger.h"
#include "gateway/metrics/gateway_metrics.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::proxy::handler::data {
namespace {

using access::CallerRole;
using Json = nlohmann::json;

class LedgerDataTest : public testing::Test {
 protected:
  LedgerDataTest() {
    for (int i = 0; i < 3; ++i) {
      ledger::RequestRecord record;
      record.id = ledger::MakeRequestId();
      record.time_us = WallClock::NowUs();
      record.tenant = i == 0 ? "ann" : "bob";
      record.model = "m";
      record.status = 200;
      ledger_.Add(record);
    }
  }
  Json Sums(const access::Caller& caller, const request::QueryParameters& query) {
    return Json::parse(StatsBy(service_, caller, query).value())["data"];
  }

  store::MemoryMetaStore meta_;
  ledger::Ledger ledger_{{.meta = &meta_}};
  metrics::Registry registry_;
  metrics::GatewayMetrics metrics_{registry_};
  service::Service service_{{.registry = registry_, .metrics = metrics_, .ledger = &ledger_}};
};

TEST_F(LedgerDataTest, AnAdminSeesAllSumsAndAUserItsOwn) {
  EXPECT_EQ(Sums({.role = CallerRole::kAdmin}, {{"step", "day"}, {"by", "model"}})[0]["requests"],
            3);
  EXPECT_EQ(Sums({.role = CallerRole::kUser, .tenant = "bob"}, {{"step", "all"}})[0]["requests"],
            2);
  EXPECT_TRUE(Sums({.role = CallerRole::kUser, .tenant = "eve"}, {{"step", "hour"}}).empty());
}

TEST_F(LedgerDataTest, ABadParameterIsNamed) {
  const access::Caller admin{.role = CallerRole::kAdmin};
  const auto field = [&](const request::QueryParameters& query) {
    return StatsBy(service_, admin, query).error().field;
  };
  EXPECT_EQ(field({{"step", "week"}}), "step");
  EXPECT_EQ(field({{"by", "model"}}), "step") << "it is missing";
  EXPECT_EQ(field({{"step", "day"}, {"by", "x"}}), "by");
  EXPECT_EQ(field({{"step", "day"}, {"from_us", "x"}}), "from_us");
  EXPECT_EQ(field({{"step", "day"}, {"colour", "red"}}), "colour");
  EXPECT_EQ(Advise(service_, admin, {{"colour", "red"}}).error().detail,
            "unknown parameter 'colour'");
}

TEST_F(LedgerDataTest, AdviceIsAnObjectWithAList) {
  EXPECT_TRUE(
      Json::parse(Advise(service_, {.role = CallerRole::kAdmin}, {}).value())["data"].is_array());
}

}  // namespace
}  // namespace kvgate::proxy::handler::data
