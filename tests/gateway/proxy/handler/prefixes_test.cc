#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/digest.h"
#include "tests/gateway/proxy/test_proxy.h"
#include "tests/wait_until.h"

namespace kvgate::proxy::handler {
namespace {

using test::TestProxy;
using test::TestSink;
using ::testing::HasSubstr;

const std::string kWarm = R"({"model":"local","prompt":")" + std::string(70, 'x') + R"("})";

// A body that comes in pieces, and then in this error.
class TestSource final : public request::BodySource {
 public:
  explicit TestSource(std::string bytes, std::optional<Error> error = {})
      : bytes_(std::move(bytes)), error_(std::move(error)) {}
  work::Task<Result<size_t>> Read(std::span<char> piece) override {
    ++num_reads;
    if (at_ == bytes_.size() && error_) co_return *error_;
    const size_t size = std::min(piece.size(), bytes_.size() - at_);
    std::memcpy(piece.data(), bytes_.data() + at_, size);
    at_ += size;
    co_return size;
  }
  work::Task<void> Skip() override {
    is_skipped = true;
    co_return;
  }
  int num_reads = 0;
  bool is_skipped = false;

 private:
  const std::string bytes_;
  const std::optional<Error> error_;
  size_t at_ = 0;
};

void Import(TestProxy& proxy, TestSource& source, TestSink& sink) {
  proxy.Serve({.path = "/kvgate/v1/prefixes/import", .source = &source}, sink);
}

TEST(PrefixesTest, WarmingAnswersWhenThePrefillHasEnded) {
  TestProxy proxy({.script = {.first_delay = std::chrono::milliseconds(30)}});
  TestSink sink(proxy.io());
  proxy.Serve({.path = "/kvgate/v1/prefixes/warm", .body = kWarm}, sink);
  EXPECT_EQ(sink.status, 200);
  EXPECT_THAT(sink.body, HasSubstr("\"tokens\":70,\"blocks\":2"));
}

TEST(PrefixesTest, AClientThatLeavesAndAServerThatEndsCancelAWarming) {
  for (const bool ends : {false, true}) {
    TestProxy proxy({.script = {.first_delay = std::chrono::minutes(10)}});
    TestSink sink(proxy.io());
    boost::asio::steady_timer timer(proxy.io());
    std::function<void()> look = [&] {
      if (proxy.gateway.engine.num_running() == 1) {
        ends ? sink.End() : sink.Leave();
        return;
      }
      timer.expires_after(std::chrono::milliseconds(1));
      timer.async_wait([&](const auto&) { look(); });
    };
    proxy.Serve({.path = "/kvgate/v1/prefixes/warm", .body = kWarm}, sink, look);
    EXPECT_EQ(sink.status, ends ? 503 : 0);
    EXPECT_TRUE(test::WaitUntil([&] { return proxy.gateway.engine.num_cancelled() == 1; },
                                "it is cancelled"));
    EXPECT_EQ(proxy.gateway.metrics.client_disconnects.value(), ends ? 0u : 1u);
    const char* const status = ends ? "503" : "499";
    EXPECT_EQ(proxy.gateway.metrics.requests.With({"/kvgate/v1/prefixes/warm", status}).value(),
              1u);
  }
}

TEST(PrefixesTest, WarmingCountsAgainstTheKeysLimitsAndItsTokensAreCharged) {
  config::KeyConfig key;
  key.name = "team";
  key.sha256 = ToHex(ThreadSha256().Update("key").Finish().bytes);
  key.models = {"local"};
  key.tokens_per_minute = 50;
  TestProxy proxy({.targets = {.keys = {key}}});
  const auto status = [&](std::string body) {
    TestSink sink(proxy.io());
    proxy.Serve({.path = "/kvgate/v1/prefixes/warm",
                 .body = std::move(body),
                 .fields = {{"x-kvgate-key", "key"}}},
                sink);
    return sink.status;
  };
  EXPECT_EQ(status(R"({"model":"fake-model","prompt":"x"})"), 403);
  EXPECT_EQ(status(R"({"prompt":"x"})"), 403) << "it does not show its model";
  EXPECT_EQ(status(kWarm), 200);
  EXPECT_EQ(status(kWarm), 429);
}

TEST(PrefixesTest, WhatIsNoPrefixFileIsRefused) {
  test::FakeKvStore kv;
  TestProxy proxy({.kv = &kv});
  TestSource garbage(std::string(600'000, 'x'));
  TestSink sink(proxy.io());
  Import(proxy, garbage, sink);
  EXPECT_EQ(sink.status, 400);
  EXPECT_LE(garbage.num_reads, 2) << "the rest is not read";
  TestSource empty("");
  TestSink nothing(proxy.io());
  Import(proxy, empty, nothing);
  EXPECT_EQ(nothing.status, 400);
}

TEST(PrefixesTest, ABodyThatIsTooLargeSaysSoAndOneOfAClientThatLeftNothing) {
  test::FakeKvStore kv;
  TestProxy proxy({.kv = &kv});
  TestSource large("", MakeError(ErrorCode::kTooLarge, "http", "larger than the limit"));
  TestSink sink(proxy.io());
  Import(proxy, large, sink);
  EXPECT_EQ(sink.status, 413);
  EXPECT_THAT(sink.body, HasSubstr("larger than the limit"));
  TestSource left("", MakeError(ErrorCode::kCancelled, "http", "left"));
  TestSink nobody(proxy.io());
  Import(proxy, left, nobody);
  EXPECT_EQ(nobody.status, 0);
}

TEST(PrefixesTest, WithoutADiskTierAnImportIsSkippedAndSaysWhy) {
  TestProxy proxy;
  TestSource source("anything");
  TestSink sink(proxy.io());
  Import(proxy, source, sink);
  EXPECT_EQ(sink.status, 503);
  EXPECT_THAT(sink.body, HasSubstr("switched off"));
  EXPECT_TRUE(source.is_skipped);
  EXPECT_EQ(source.num_reads, 0);
}

TEST(PrefixesTest, AnExportOfNothingIsNotFound) {
  test::FakeKvStore kv;
  TestProxy proxy({.kv = &kv});
  const auto status = [&](std::string_view id) {
    TestSink sink(proxy.io());
    proxy.Serve({.method = "GET", .path = fmt::format("/kvgate/v1/prefixes/{}/export", id)}, sink);
    return sink.status;
  };
  EXPECT_EQ(status(std::string(32, '0')), 404);
  EXPECT_EQ(status("xyz"), 400);
}

}  // namespace
}  // namespace kvgate::proxy::handler
