#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "store/kv/prefix_file.h"
#include "tests/engine/memory_kv_store.h"
#include "tests/gateway/http/test_server.h"

namespace kvgate::http {
namespace {

using ::testing::HasSubstr;

std::string PostBytes(std::string_view path, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
      "Content-Length: {}\r\n\r\n{}",
      path, body.size(), body);
}

const std::string kWarm = R"({"model":"local","prompt":")" + std::string(70, 'x') + R"("})";

TEST(ConnectionPrefixesTest, WarmAnswersWhenThePrefillHasEnded) {
  TestServer server({.script = {.first_delay = milliseconds(50)}});
  const RawResponse reply = Exchange(server, Post("/kvgate/v1/prefixes/warm", kWarm));
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr("\"tokens\":70,\"blocks\":2"));
  EXPECT_EQ(server.gateway.engine.last_request().max_tokens, 0);
}

TEST(ConnectionPrefixesTest, AClientThatLeavesCancelsItsWarming) {
  TestServer server({.script = {.first_delay = std::chrono::seconds(60)}});
  {
    RawClient client(server.port());
    ASSERT_TRUE(client.Send(Post("/kvgate/v1/prefixes/warm", kWarm)));
    ASSERT_TRUE(test::WaitUntil([&] { return server.gateway.engine.num_running() == 1; },
                                "the request runs"));
  }
  EXPECT_TRUE(test::WaitUntil([&] { return server.gateway.engine.num_cancelled() == 1; },
                              "it is cancelled"));
}

TEST(ConnectionPrefixesTest, WarmNamesAWrongField) {
  TestServer server;
  const RawResponse reply =
      Exchange(server, Post("/kvgate/v1/prefixes/warm", R"({"model":"local"})"));
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("\"param\":\"messages\""));
}

TEST(ConnectionPrefixesTest, AnImportIsReadPieceByPieceAndReported) {
  test::FakeKvStore kv;
  TestServer server({.kv = &kv});
  store::kv::PrefixFileWriter writer(*server.gateway.keyring);
  std::string file;
  writer.Header({.fingerprint = {}, .tenant = {}, .num_blocks = 1}, file);
  store::kv::KvBlock block;  // its digest is not that of its tokens
  block.tokens.resize(32);
  block.payload.resize(size_t{3} << 20);
  writer.Block(block, file);
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(PostBytes("/kvgate/v1/prefixes/import", file)));
  const RawResponse reply = client.ReadResponse();
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr("\"imported\":0,\"dropped\":1"));
  EXPECT_THAT(reply.body, HasSubstr("digest"));
  ASSERT_TRUE(client.Send(Get("/health"))) << "the connection goes on";
  EXPECT_EQ(client.ReadResponse().status, 200);
}

// Verify takes several times as long as one step may.
class LargeKvStore final : public store::MemoryKvStore {
 public:
  explicit LargeKvStore(bool gets_on) : gets_on_(gets_on) {}
  Result<store::kv::KvVerifyReport> Verify(
      std::function<void(uint64_t, uint64_t)> progress) override {
    constexpr uint64_t kBlocks = 60;
    for (uint64_t done = 1; done <= kBlocks; ++done) {
      std::this_thread::sleep_for(milliseconds(20));
      if (gets_on_) progress(done, kBlocks);
    }
    return store::kv::KvVerifyReport{.num_checked = kBlocks};
  }

 private:
  const bool gets_on_;
};

TEST(ConnectionPrefixesTest, VerifyingMayTakeAnyTimeAsLongAsItGetsOn) {
  for (const bool gets_on : {true, false}) {
    LargeKvStore kv(gets_on);
    TestServer server({.host = {.pools = {.bulk_timeout = milliseconds(400)}}, .kv = &kv});
    const RawResponse reply = Exchange(server, Post("/kvgate/v1/prefixes/verify", "{}"));
    EXPECT_EQ(reply.status, gets_on ? 200 : 503);
    EXPECT_THAT(reply.body, HasSubstr(gets_on ? "\"checked\":60" : "within 400 ms"));
  }
}

TEST(ConnectionPrefixesTest, WhatIsNoPrefixFileOrTooLargeIsRefused) {
  test::FakeKvStore kv;
  TestServer server({.options = {.import_bytes_max = 1000},
                     .host = {.requests = {.body_bytes_max = 100}},
                     .kv = &kv});
  const auto status = [&](const std::string& request) { return Exchange(server, request).status; };
  EXPECT_EQ(status(PostBytes("/kvgate/v1/prefixes/import", std::string(900, 'x'))), 400);
  EXPECT_EQ(status(PostBytes("/kvgate/v1/prefixes/import", "")), 400);
  EXPECT_EQ(status(PostBytes("/kvgate/v1/prefixes/import", std::string(1001, 'x'))), 413);
  EXPECT_EQ(status(Post("/kvgate/v1/prefixes/import", "{}")), 415);
  EXPECT_EQ(status(PostBytes("/kvgate/v1/prefixes/warm", "{}")), 415);
  EXPECT_EQ(status(Post("/v1/completions", std::string(101, 'x'))), 413) << "its own limit";
}

TEST(ConnectionPrefixesTest, AnImportWithoutADiskTierSaysWhy) {
  TestServer server;
  const RawResponse reply =
      Exchange(server, PostBytes("/kvgate/v1/prefixes/import", std::string(100, 'x')));
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("switched off"));
}

TEST(ConnectionPrefixesTest, AnExportOfNothingIsNotFound) {
  test::FakeKvStore kv;
  TestServer server({.kv = &kv});
  const std::string id(32, '0');
  EXPECT_EQ(Exchange(server, Get("/kvgate/v1/prefixes/" + id + "/export")).status, 404);
  EXPECT_EQ(Exchange(server, Get("/kvgate/v1/prefixes/xyz/export")).status, 400);
}

}  // namespace
}  // namespace kvgate::http
