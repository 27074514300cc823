#include "gateway/proxy/handler/model_context.h"

#include <gtest/gtest.h>

#include "gateway/ledger/prices.h"
#include "tests/gateway/proxy/test_proxy.h"
#include "tests/gateway/upstream/model_provider.h"

namespace kvgate::proxy::handler {
namespace {

using dialect::form::Dialect;
using test::ModelProvider;
using test::TestProxy;
using test::TestSink;

constexpr const char* kPrices = R"({"date": "2026-11", "providers": {"openai": [
    {"models": ["gpt-small"], "context_tokens": 9000, "source": "test", "date": "2026-11"},
    {"models": ["*"], "source": "test", "date": "2026-11"}]}})";

struct Known {
  int set = 0;     // [[upstream]] context_tokens
  int listed = 0;  // in the upstream's list of models
  bool priced = false;
};

int64_t ContextWith(const Known& known, const std::string& model) {
  ModelProvider provider("up");
  config::UpstreamConfig config = provider.Config({"gpt-*"});
  config.context_tokens = known.set;
  const ledger::Prices prices = ledger::Prices::Parse(kPrices, "prices.json").value();
  TestProxy proxy({.targets = {.upstreams = {config}},
                   .options = {.prices = known.priced ? &prices : nullptr}});
  TestSink sink(proxy.io());
  const auto request = proxy.Open({.body = "{}"}, sink);
  if (known.listed > 0) {
    const std::string body = fmt::format(
        R"({{"data":[{{"id":"gpt-x"}},{{"id":"gpt-small","max_model_len":{}}}]}})", known.listed);
    request->environment().model_lists.Put(
        fmt::format("up {}", request->caller().tenant()),
        *upstream::ParseModelList(body, dialect::form::Api::kOpenAi, "up"),
        std::chrono::steady_clock::now());
  }
  return ContextOf(*request, Dialect::kChatCompletions, model);
}

TEST(ModelContextTest, SettingsGoBeforeTheListAndTheListBeforePrices) {
  EXPECT_EQ(ContextWith({}, "gpt-small"), 0);
  EXPECT_EQ(ContextWith({.priced = true}, "gpt-small"), 9000);
  EXPECT_EQ(ContextWith({.listed = 8000, .priced = true}, "gpt-small"), 8000);
  EXPECT_EQ(ContextWith({.set = 7000, .listed = 8000, .priced = true}, "gpt-small"), 7000);
  EXPECT_EQ(ContextWith({.listed = 8000, .priced = true}, "gpt-x"), 0);
}

TEST(ModelContextTest, OfARoutesTargetsTheShortestCounts) {
  ModelProvider one("one");
  ModelProvider two("two");
  config::UpstreamConfig first = one.Config({"gpt-*"});
  config::UpstreamConfig second = two.Config({"gpt-*"});
  first.context_tokens = 5000;
  second.context_tokens = 3000;
  TestProxy proxy({.targets = {.upstreams = {first, second},
                               .routes = {{.models = {"pooled"},
                                           .targets = {"one/gpt-1", "local"},
                                           .fallback = {"two/gpt-2"}}}}});
  TestSink sink(proxy.io());
  const auto request = proxy.Open({.body = "{}"}, sink);
  EXPECT_EQ(ContextOf(*request, Dialect::kChatCompletions, "pooled"), 3000);
  EXPECT_EQ(ContextOf(*request, Dialect::kChatCompletions, "gpt-1"), 5000);
}

}  // namespace
}  // namespace kvgate::proxy::handler
