#include "gateway/proxy/provider/ordered_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "gateway/ledger/ledger.h"
#include "gateway/service/prompts.h"
#include "tests/gateway/proxy/provider/asked_upstream.h"

namespace kvgate::proxy::provider {
namespace {

using std::chrono::milliseconds;
using test::Http;
using test::Peer;
using test::ScriptedUpstream;
using test::TestProxy;
using test::TestRequest;
using test::TestSink;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPath = "/v1beta/models/gemini-2.5-pro:generateContent";
const std::string kBody = R"({"systemInstruction":{"parts":[{"text":")" +
                          std::string(20'000, 'x') +
                          R"("}]},"contents":[{"parts":[{"text":"hi"}]}]})";

constexpr const char* kMade =
    R"({"name":"cachedContents/a","usageMetadata":{"totalTokenCount":5000}})";
constexpr const char* kNaming = R"("cachedContent":"cachedContents/a")";

// A provider that reads nothing from its own cache, keeps caches that it is asked for, and knows
// them until it is told to forget.
class Provider {
 public:
  std::string Answer(const std::string& request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    if (request.starts_with("POST /v1beta/cachedContents")) {
      return refuses ? Http("400 Bad Request", R"({"error":{"code":400}})") : Http("200 OK", kMade);
    }
    if (forbids) return Http("403 Forbidden", R"({"error":{"code":403}})");
    const bool is_named = request.find(kNaming) != std::string::npos;
    if (is_named && forgets) return Http("403 Forbidden", R"({"error":{"code":403}})");
    return Http("200 OK",
                std::string(R"({"candidates":[],"usageMetadata":{"promptTokenCount":5100,)") +
                    (is_named ? R"("cachedContentTokenCount":5000,)" : "") +
                    R"("candidatesTokenCount":7}})");
  }
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::atomic<bool> refuses{false};
  std::atomic<bool> forgets{false};
  std::atomic<bool> forbids{false};  // the credential

 private:
  std::mutex mutex_;
  std::vector<std::string> requests_;
};

class OrderedCacheTest : public ::testing::Test {
 protected:
  void Open(std::string mode = "pin", std::vector<std::string> rules_off = {}) {
    config::UpstreamConfig config;
    config.name = "google";
    config.dialect = config.provider = "gemini";
    config.base_url = fmt::format("http://127.0.0.1:{}", server_.port());
    config.mode = std::move(mode);
    config.rules_off = std::move(rules_off);
    config.breaker_failures = 0;
    proxy_.emplace(
        TestProxy::Setup{.targets = {.upstreams = {config}},
                         .options = {.exchange_log = &ledger_, .prompts = &prompts_}});
  }
  ~OrderedCacheTest() override {
    if (!proxy_) return;
    Settle();
  }

  // Serves a request and lets what it has ordered come to its end; returns its status.
  int Ask(std::vector<std::pair<std::string, std::string>> fields = {{"x-goog-api-key", "AI-1"}}) {
    TestSink sink(proxy_->io());
    proxy_->Serve({.path = kPath, .body = kBody, .fields = std::move(fields)}, sink);
    Settle();
    return sink.status;
  }
  void Settle() {
    work::Background& background = *proxy_->environment().background;
    const auto until = SteadyClock::now() + std::chrono::seconds(20);
    while (background.size() > 0 && SteadyClock::now() < until) {
      proxy_->io().restart();
      proxy_->io().run_for(milliseconds(5));
    }
    EXPECT_EQ(background.size(), 0u);
  }
  // The request line and the body of each request that the provider got, from the n-th on.
  std::vector<std::string> Got(size_t from) {
    std::vector<std::string> got = provider_.requests();
    got.erase(got.begin(), got.begin() + static_cast<long>(std::min(from, got.size())));
    return got;
  }

  Provider provider_;
  ScriptedUpstream server_{[this](Peer& peer, int) {
    for (std::string got = peer.ReadRequest(); !got.empty(); got = peer.ReadRequest()) {
      if (!peer.Send(provider_.Answer(got))) return;
    }
  }};
  service::Prompts prompts_{prompt::Optimizer::Options{}};
  std::vector<ledger::RequestRecord> records_;
  ledger::Ledger ledger_{
      {.complete =
           [this](auto& record, const auto& facts, auto& preparation) {
             prompts_.Complete(record, facts, preparation);
           },
       .on_record = [this](const ledger::RequestRecord& record) { records_.push_back(record); }}};
  std::optional<TestProxy> proxy_;
};

TEST_F(OrderedCacheTest, APrefixThatTheProviderMissesIsKeptAndThenNamed) {
  Open();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Ask(), 200);
  const std::vector<std::string> got = Got(0);
  ASSERT_EQ(got.size(), 6u) << "five requests, and an order beside the fourth";
  EXPECT_THAT(got[4], HasSubstr("POST /v1beta/cachedContents HTTP/1.1\r\n"));
  EXPECT_THAT(got[4], HasSubstr("x-goog-api-key: AI-1\r\n"));
  EXPECT_THAT(got[4], HasSubstr(R"("ttl":"300s")"));
  EXPECT_THAT(got[5], HasSubstr(R"({"cachedContent":"cachedContents/a","contents")"));
  EXPECT_THAT(got[5], Not(HasSubstr("systemInstruction")));

  ASSERT_EQ(records_.size(), 6u);
  const auto order = std::find_if(records_.begin(), records_.end(), [](const auto& record) {
    return record.purpose == "explicit_cache";
  });
  ASSERT_NE(order, records_.end());
  EXPECT_EQ(order->path, "/v1beta/cachedContents");
  EXPECT_EQ(order->upstream, "google");
  ASSERT_TRUE(order->usage);
  EXPECT_EQ(order->usage->cache_write_tokens, 5'000);
  EXPECT_EQ(order->kept->seconds, 300);
  const ledger::RequestRecord& named = records_.back();
  EXPECT_THAT(named.edits, Contains(ledger::RecordEdit{.rule = "explicit_cache", .count = 1}));
  EXPECT_EQ(named.usage->cache_read_tokens, 5'000);
  EXPECT_EQ(named.mode, "observe") << "nothing of the rest is touched";
}

TEST_F(OrderedCacheTest, ACacheThatTheProviderHasForgottenIsLeftOutAtOnce) {
  Open();
  for (int i = 0; i < 5; ++i) Ask();
  provider_.forgets = true;
  EXPECT_EQ(Ask(), 200) << "its caller sees nothing of it";
  const std::vector<std::string> got = Got(6);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_THAT(got[0], HasSubstr("cachedContents/a"));
  EXPECT_THAT(got[1], HasSubstr("systemInstruction"));
  EXPECT_EQ(Ask(), 200);
  EXPECT_EQ(Got(8).size(), 1u) << "it is not named again";
}

TEST_F(OrderedCacheTest, ARefusalThatHasOtherReasonsLosesNoCache) {
  Open();
  for (int i = 0; i < 5; ++i) Ask();
  provider_.forbids = true;
  EXPECT_EQ(Ask(), 403);
  provider_.forbids = false;
  const size_t before = Got(0).size();
  EXPECT_EQ(Ask(), 200);
  EXPECT_THAT(Got(before).at(0), HasSubstr("cachedContents/a"));
}

TEST_F(OrderedCacheTest, ARefusedOrderDisturbsNobodyAndIsNotRepeated) {
  Open();
  provider_.refuses = true;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Ask(), 200);
  EXPECT_EQ(Got(0).size(), 21u);
}

TEST_F(OrderedCacheTest, ACredentialIsItsCallersOwn) {
  Open();
  for (int i = 0; i < 5; ++i) Ask();
  const size_t before = Got(0).size();
  Ask({{"x-goog-api-key", "AI-2"}});
  EXPECT_THAT(Got(before).at(0), Not(HasSubstr("cachedContents/a")));
  Ask({{"authorization", "Bearer ya29.token"}});
  for (int i = 0; i < 4; ++i) Ask({{"authorization", "Bearer ya29.token"}});
  bool has_order = false;
  for (const std::string& request : Got(before)) {
    if (!request.starts_with("POST /v1beta/cachedContents")) continue;
    has_order = true;
    EXPECT_THAT(request, HasSubstr("authorization: Bearer ya29.token\r\n"));
    EXPECT_THAT(request, Not(HasSubstr("x-goog-api-key")));
  }
  EXPECT_TRUE(has_order);
}

TEST_F(OrderedCacheTest, ItCanBeSwitchedOff) {
  Open("observe");
  for (int i = 0; i < 12; ++i) Ask();
  EXPECT_EQ(Got(0).size(), 12u);
  Open("pin", {"explicit_cache"});
  for (int i = 0; i < 12; ++i) Ask();
  EXPECT_EQ(Got(0).size(), 24u);
}

TEST_F(OrderedCacheTest, AnOrderUnderWayEndsWithTheServer) {
  ScriptedUpstream silent([](Peer& peer, int) {
    peer.ReadRequest();
    peer.WaitForEnd(std::chrono::seconds(20));
  });
  config::UpstreamConfig config;
  config.name = "google";
  config.dialect = config.provider = "gemini";
  config.base_url = fmt::format("http://127.0.0.1:{}", silent.port());
  proxy_.emplace(TestProxy::Setup{.targets = {.upstreams = {config}}, .options = {}});
  TestSink sink(proxy_->io());
  const TestRequest ask{.path = kPath, .body = kBody};
  const auto request = proxy_->Open(ask, sink);
  service::explicit_cache::ExplicitCaching caching(ledger::Prices::Builtin(), nullptr);
  auto job = std::make_shared<OrderedCache>(
      OrderedCache::Args{.request = *request,
                         .upstream = "google",
                         .model = "gemini-2.5-pro",
                         .order = {.caching = &caching,
                                   .key = {},
                                   .path = "/v1beta/cachedContents",
                                   .body = "{}"}});
  work::Background& background = *proxy_->environment().background;
  ASSERT_TRUE(background.Spawn(job, proxy_->io().get_executor()));
  proxy_->io().restart();
  proxy_->io().run_for(milliseconds(100));
  EXPECT_EQ(background.size(), 1u);
  background.CancelAll();
  Settle();
}

}  // namespace
}  // namespace kvgate::proxy::provider
