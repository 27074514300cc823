#include "gateway/proxy/request/request_body.h"

#include <gtest/gtest.h>

#include "gateway/proxy/work/body_pool.h"
#include "tests/gateway/proxy/test_proxy.h"
#include "tests/gateway/proxy/work/busy_threads.h"
#include "tests/gateway/upstream/encoders.h"

namespace kvgate::proxy::request {
namespace {

using test::BusyThreads;
using test::TestProxy;
using test::TestSink;

constexpr size_t kBytesMax = 100'000;
constexpr std::string_view kBody =
    R"({"model":"gpt-1","messages":[{"role":"user","content":"hi"}],"stream":true})";

// A body as a transport has received it, with its bytes on the budget.
struct Received {
  explicit Received(std::string bytes, std::string encoding = {}, uint64_t budget_bytes = 1 << 20,
                    service::WorkPools::Options pools = {})
      : proxy({.options = {.body_bytes_max = kBytesMax},
               .pools = pools,
               .bodies = {.bytes_max = budget_bytes, .tenant_share = 1, .body_bytes_max = 1}}),
        sink(proxy.io()),
        num_bytes(bytes.size()),
        ask({.body = std::move(bytes), .fields = {{"content-encoding", std::move(encoding)}}}),
        request(proxy.Open(ask, sink)) {
    EXPECT_TRUE(body().lease().GrowTo(num_bytes));
  }
  RequestBody& body() { return request->body(); }
  Result<void> Scan() { return proxy.Run(body().Scan(request->work())); }

  TestProxy proxy;
  TestSink sink;
  const size_t num_bytes;
  const test::TestRequest ask;
  std::unique_ptr<RequestContext> request;
};

TEST(RequestBodyTest, AGlanceSaysTheModelAndWhetherItStreams) {
  Received received{std::string(kBody)};
  ASSERT_TRUE(received.Scan());
  EXPECT_TRUE(received.body().scan().readable);
  EXPECT_EQ(received.body().scan().model, "gpt-1");
  EXPECT_TRUE(received.body().scan().stream);
  EXPECT_FALSE(received.body().is_encoded());
  EXPECT_FALSE(received.body().is_unreadable());
  EXPECT_EQ(received.body().text(), kBody);
}

TEST(RequestBodyTest, ABodyIsScannedOnce) {
  Received received{std::string(kBody)};
  ASSERT_TRUE(received.Scan());
  received.body().bytes() = "something else";
  ASSERT_TRUE(received.Scan());
  EXPECT_EQ(received.body().scan().model, "gpt-1");
}

TEST(RequestBodyTest, WhatIsNoRequestIsUnreadableUnlessThereIsNone) {
  Received garbage("garbage");
  ASSERT_TRUE(garbage.Scan());
  EXPECT_TRUE(garbage.body().is_unreadable());
  Received empty("");
  ASSERT_TRUE(empty.Scan());
  EXPECT_FALSE(empty.body().is_unreadable());
}

TEST(RequestBodyTest, ALargeBodyIsScannedByAWorkerAndRefusedIfThereIsNoRoom) {
  const std::string large = R"({"messages":[{"role":"user","content":")" +
                            std::string(work::kLargeBodyBytes, 'x') + R"("}],"model":"gpt-1"})";
  Received received(large, "", 4 << 20, {.request_threads = 1, .queue_max = 2});
  const auto num_done = [&] { return received.proxy.pools().request.stats().num_done; };
  ASSERT_TRUE(received.Scan());
  EXPECT_EQ(received.body().scan().model, "gpt-1");
  EXPECT_TRUE(test::WaitUntil([&] { return num_done() == 1; }, "a worker has scanned it"));
  Received refused(large, "", 4 << 20, {.request_threads = 1, .queue_max = 2});
  const BusyThreads busy(refused.proxy.pools().request, 1, "");
  EXPECT_EQ(refused.Scan().error().code, ErrorCode::kOverloaded);
}

TEST(RequestBodyTest, AnEncodedBodyIsDecodedAndBothAreOnTheBudget) {
  for (const char* const coding : {"gzip", "zstd", "br"}) {
    Received received(upstream::Encode(coding, kBody), coding);
    const std::string encoded = received.body().bytes();
    ASSERT_TRUE(received.Scan()) << coding;
    EXPECT_TRUE(received.body().is_encoded());
    ASSERT_TRUE(received.body().is_decoded()) << coding;
    EXPECT_EQ(received.body().scan().model, "gpt-1");
    EXPECT_EQ(received.body().text(), kBody);
    EXPECT_EQ(received.body().bytes(), encoded) << "an upstream may get it as it came";
    EXPECT_EQ(received.proxy.bodies().bytes(), encoded.size() + kBody.size());
    received.body().TakeDecoded();
    EXPECT_EQ(received.body().bytes(), kBody);
    EXPECT_EQ(received.body().text(), kBody);
    received.body().Release();
    EXPECT_EQ(received.body().text(), "");
    EXPECT_EQ(received.proxy.bodies().bytes(), 0u);
  }
}

TEST(RequestBodyTest, ABombIsNotDecodedAndTakesNoMemoryAfterwards) {
  for (const char* const coding : {"gzip", "zstd", "br"}) {
    Received received(upstream::Encode(coding, std::string(size_t{4} << 20, '{')), coding);
    ASSERT_TRUE(received.Scan()) << coding;
    EXPECT_FALSE(received.body().is_decoded()) << coding;
    EXPECT_TRUE(received.body().is_unreadable());
    EXPECT_EQ(received.body().text(), received.body().bytes());
    EXPECT_EQ(received.proxy.bodies().bytes(), received.num_bytes);
  }
}

TEST(RequestBodyTest, OneByteBeyondTheLimitIsTooLarge) {
  std::string body(kBody);
  body.append(kBytesMax - body.size(), ' ');
  Received fits(upstream::Encode("gzip", body), "gzip");
  ASSERT_TRUE(fits.Scan());
  EXPECT_EQ(fits.body().scan().model, "gpt-1");
  Received beyond(upstream::Encode("gzip", body + " "), "gzip");
  ASSERT_TRUE(beyond.Scan());
  EXPECT_TRUE(beyond.body().is_unreadable());
}

TEST(RequestBodyTest, WhatIsNotInItsEncodingStaysAsItCame) {
  for (const char* const coding : {"gzip", "zstd", "br", "deflate", "gzip, br", "nonsense"}) {
    Received received{std::string(kBody), coding};
    ASSERT_TRUE(received.Scan()) << coding;
    EXPECT_TRUE(received.body().is_encoded());
    EXPECT_FALSE(received.body().is_decoded()) << coding;
    EXPECT_TRUE(received.body().is_unreadable()) << coding;
    EXPECT_EQ(received.proxy.bodies().bytes(), kBody.size());
  }
  std::string cut = upstream::Encode("gzip", kBody);
  cut.resize(cut.size() - 9);
  Received incomplete(cut, "gzip");
  ASSERT_TRUE(incomplete.Scan());
  EXPECT_TRUE(incomplete.body().is_unreadable());
}

TEST(RequestBodyTest, DecodingTakesItsRoomFirst) {
  Received received(upstream::Encode("gzip", kBody), "gzip", /*budget_bytes=*/kBytesMax);
  const Result<void> scanned = received.Scan();
  ASSERT_FALSE(scanned) << "the limit and the encoded body do not fit together";
  EXPECT_EQ(scanned.error().code, ErrorCode::kOverloaded);
  EXPECT_FALSE(received.body().is_decoded());
  EXPECT_EQ(received.proxy.bodies().bytes(), received.num_bytes);
}

TEST(RequestBodyTest, ABodyGoesBackToThePoolAndTheBudgetWithItsRequest) {
  while (work::TakeBody().capacity() > 1000) continue;  // those of requests before
  Received received(std::string(50'000, 'x'));
  const char* const memory = received.body().bytes().data();
  received.request.reset();
  EXPECT_EQ(received.proxy.bodies().bytes(), 0u);
  std::string body = work::TakeBody();
  EXPECT_EQ(body.data(), memory);
}

}  // namespace
}  // namespace kvgate::proxy::request
