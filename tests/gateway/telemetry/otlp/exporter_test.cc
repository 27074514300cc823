#include "gateway/telemetry/otlp/exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "tests/wait_until.h"

namespace kvgate::telemetry::otlp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace asio = boost::asio;
using asio::ip::tcp;

ledger::RequestRecord Record() {
  ledger::RequestRecord record;
  record.id = "0123456789abcdef01234567";
  record.endpoint = dialect::form::Endpoint::kChatCompletions;
  record.upstream = record.provider = "openai";
  record.model = "gpt-x";
  record.status = 200;
  record.timings.total_us = 5;
  return record;
}

std::string Text(const Exporter& exporter) {
  std::string text;
  metrics::TextWriter writer(text);
  exporter.Collect(writer);
  return text;
}

std::string Nothing(const char*) { return ""; }

// A collector that takes one request after another with the same answer.
class Collector {
 public:
  explicit Collector(std::string answer) : answer_(std::move(answer)), thread_([this] { Run(); }) {}
  ~Collector() {
    is_over_ = true;
    boost::system::error_code ignored;
    tcp::socket(io_).connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
  }
  std::string url() const {
    return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }

 private:
  void Run() {
    while (true) {
      boost::system::error_code code;
      tcp::socket socket(io_);
      acceptor_.accept(socket, code);
      if (is_over_) return;
      std::string seen(1 << 16, '\0');
      socket.read_some(asio::buffer(seen), code);
      asio::write(socket, asio::buffer(answer_), code);
    }
  }

  const std::string answer_;
  std::atomic<bool> is_over_{false};
  asio::io_context io_;
  tcp::acceptor acceptor_{io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::thread thread_;
};

config::TelemetryConfig ConfigFor(const std::string& url) {
  config::TelemetryConfig config;
  config.endpoint = url;
  config.interval_seconds = 1;
  config.timeout_seconds = 1;
  config.metrics = false;
  return config;
}

TEST(ExporterTest, WhatWaitsAtTheEndIsSent) {
  const Collector collector("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
  config::TelemetryConfig config = ConfigFor(collector.url());
  config.interval_seconds = 3600;
  config.queue = 2;  // a whole batch is one
  auto exporter = Exporter::Open(config, Nothing).value();
  exporter->Add(Record());
  EXPECT_TRUE(test::WaitUntil(
      [&] {
        return Text(*exporter).find("kvgate_telemetry_spans_sent_total 1\n") != std::string::npos;
      },
      "a batch is sent before its time"));
  exporter.reset();
}

TEST(ExporterTest, WhatIsRefusedForGoodIsDroppedAndCounted) {
  const Collector collector("HTTP/1.1 400 Bad\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  const auto exporter = Exporter::Open(ConfigFor(collector.url()), Nothing).value();
  exporter->Add(Record());
  EXPECT_TRUE(test::WaitUntil(
      [&] {
        return Text(*exporter).find("kvgate_telemetry_dropped_total 1\n") != std::string::npos;
      },
      "it is dropped"));
  EXPECT_THAT(Text(*exporter), HasSubstr("kvgate_telemetry_spans_sent_total 0\n"));
}

TEST(ExporterTest, WhatItsCallerDoesNotSampleIsNotSentAndNotCountedAsDropped) {
  const Collector collector("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
  const auto exporter = Exporter::Open(ConfigFor(collector.url()), Nothing).value();
  ledger::RequestRecord unsampled = Record();
  unsampled.caller_trace = {
      .trace_id = std::string(32, 'a'), .span_id = std::string(16, 'b'), .flags = 0};
  exporter->Add(unsampled);
  exporter->Add(Record());
  exporter->Add(unsampled);
  EXPECT_TRUE(test::WaitUntil(
      [&] {
        return Text(*exporter).find("kvgate_telemetry_spans_sent_total 0\n") == std::string::npos;
      },
      "the sampled one is sent"));
  EXPECT_THAT(Text(*exporter), HasSubstr("kvgate_telemetry_spans_sent_total 1\n"));
  EXPECT_THAT(Text(*exporter), HasSubstr("kvgate_telemetry_dropped_total 0\n"));
}

TEST(ExporterTest, NobodyThereMeansThatTheOldestAreDropped) {
  config::TelemetryConfig config = ConfigFor("http://127.0.0.1:1");
  config.queue = 3;
  const auto exporter = Exporter::Open(config, Nothing).value();
  for (int i = 0; i < 200; ++i) exporter->Add(Record());
  EXPECT_TRUE(test::WaitUntil(
      [&] {
        return Text(*exporter).find("kvgate_telemetry_failures_total 0\n") == std::string::npos;
      },
      "the collector is asked"));
  EXPECT_THAT(Text(*exporter), Not(HasSubstr("kvgate_telemetry_dropped_total 0\n")));
}

TEST(ExporterTest, HeadersThatCannotBeReadAreRefusedWithoutShowingThem) {
  config::TelemetryConfig config = ConfigFor("http://127.0.0.1:1");
  config.headers_env = "HEADERS";
  for (const char* text : {"", "no-equals-secret", "=secret", "a=secret\r\nx: y"}) {
    const auto opened = Exporter::Open(config, [text](const char*) { return std::string(text); });
    ASSERT_FALSE(opened) << text;
    EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(opened.error().detail, HasSubstr("telemetry.headers_env"));
    EXPECT_THAT(opened.error().detail, Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace kvgate::telemetry::otlp
