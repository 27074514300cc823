#include "gateway/replay/trace.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/base/temp_folder.h"
#include "tests/wait_until.h"

namespace kvgate::replay {
namespace {

namespace fs = std::filesystem;

class TraceTest : public ::testing::Test {
 protected:
  fs::path File() const { return folder_ / "trace.jsonl"; }
  void Write(std::string_view text) const { std::ofstream(File(), std::ios::binary) << text; }

  const TempFolder folder_;
};

TraceRequest Example() {
  return {.time_us = 1'795'000'000'123'456,
          .tenant = "team",
          .conversation = "c1",
          .endpoint = dialect::form::Endpoint::kResponses,
          .upstream = "main",
          .provider = "openai",
          .is_oauth = true,
          .headers = {{.name = "session_id", .value = "s"}},
          .body = "{\"a\": \"\xc3\xa9\\n\\\"\",\r\n \"b\":1.0}",
          .status = 200,
          .usage = ledger::reply::TokenUsage{.uncached_tokens = 1,
                                             .cache_read_tokens = 2,
                                             .cache_write_tokens = 3,
                                             .cache_write_1h_tokens = 4,
                                             .output_tokens = 5},
          .ttft_us = 1'500,
          .total_us = 2'000'250};
}

TEST(TraceLine, ComesBackAsItWas) {
  const TraceRequest request = Example();
  const auto line = ToTraceLine(request);
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->find('\n'), std::string::npos);
  const Result<TraceRequest> back = ParseTraceLine(*line);
  ASSERT_TRUE(back.has_value()) << back.error().detail;
  EXPECT_EQ(back->time_us, request.time_us);
  EXPECT_EQ(back->tenant, "team");
  EXPECT_EQ(back->conversation, "c1");
  EXPECT_EQ(back->endpoint, request.endpoint);
  EXPECT_EQ(back->upstream, "main");
  EXPECT_TRUE(back->is_oauth);
  EXPECT_EQ(back->Header("session_id"), "s");
  EXPECT_EQ(back->Header("other"), "");
  EXPECT_EQ(back->body, request.body);  // byte for byte
  EXPECT_EQ(back->status, 200);
  EXPECT_EQ(back->usage, request.usage);
  EXPECT_EQ(back->ttft_us, 1'500);
  EXPECT_EQ(back->total_us, 2'000'250);
}

TEST(TraceLine, WhatIsNotUtf8HasNone) {
  TraceRequest request = Example();
  request.body = "{\"a\":\"\xff\"}";
  EXPECT_FALSE(ToTraceLine(request).has_value());
}

TEST(TraceLine, ABodyMayBeWrittenAsAnObject) {
  const auto read = ParseTraceLine(R"({"time":1,"endpoint":"messages","provider":"anthropic",)"
                                   R"("body":{"n": 1.50, "é":[{}]},"status":200})");
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(read->body, R"({"n": 1.50, "é":[{}]})");
  EXPECT_EQ(read->status, 200);
}

TEST(TraceLine, ErrorsNameTheField) {
  const auto field = [](std::string_view line) {
    const Result<TraceRequest> parsed = ParseTraceLine(line);
    return parsed ? "read" : parsed.error().field;
  };
  EXPECT_EQ(field(R"({"time":1,"endpoint":"messages","provider":"x","body":"{}"})"), "read");
  EXPECT_EQ(field(R"({"endpoint":"messages","provider":"x","body":"{}"})"), "time");
  EXPECT_EQ(field(R"({"time":-1,"endpoint":"messages","provider":"x","body":"{}"})"), "time");
  EXPECT_EQ(field(R"({"time":1,"endpoint":"mail","provider":"x","body":"{}"})"), "endpoint");
  EXPECT_EQ(field(R"({"time":1,"endpoint":"messages","provider":"x","body":[]})"), "body");
  EXPECT_EQ(field(R"({"time":1,"endpoint":"messages","provider":"x","body":"{}",)"
                  R"("usage":{"output_tokens":"x"}})"),
            "usage");
  EXPECT_EQ(field("nonsense"), "");
}

TEST_F(TraceTest, IsReadInTheOrderOfItsTimes) {
  TraceRequest late = Example();
  TraceRequest early = Example();
  early.time_us -= 1'000'000;
  early.tenant = "early";
  Write(*ToTraceLine(late) + "\n\n" + *ToTraceLine(early) + "\n");
  auto reader = TraceReader::Open(File());
  ASSERT_TRUE(reader.has_value());
  ASSERT_EQ((*reader)->num_requests(), 2u);
  EXPECT_EQ((*reader)->Read(0)->tenant, "early");
  EXPECT_EQ((*reader)->Read(1)->tenant, "team");
}

TEST_F(TraceTest, ErrorsNameTheLine) {
  EXPECT_EQ(TraceReader::Open(File()).error().code, ErrorCode::kNotFound);
  Write(*ToTraceLine(Example()) + "\n{\"time\":5}\n");
  auto reader = TraceReader::Open(File());
  ASSERT_TRUE(reader.has_value());
  EXPECT_NE((*reader)->Read(0).error().detail.find(":2: "), std::string::npos);
  Write("no json\n");
  EXPECT_NE(TraceReader::Open(File()).error().detail.find(":1: "), std::string::npos);
}

TEST_F(TraceTest, AWriterAppendsForItsOwnerOnly) {
  Write("");
  fs::permissions(File(), fs::perms::all);
  for (int round = 0; round < 2; ++round) {
    auto writer = TraceWriter::Open({.path = File()});
    ASSERT_TRUE(writer.has_value());
    for (int i = 0; i < 50; ++i) (*writer)->Append(Example());
    EXPECT_EQ((*writer)->num_dropped(), 0u);
  }
  struct stat status {};
  ASSERT_EQ(stat(File().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ((*TraceReader::Open(File()))->num_requests(), 100u);
}

// Limits the size of the files that this process writes, so that a write fails in its middle.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uint64_t bytes_max) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{.rlim_cur = bytes_max, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*const handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before_{};
};

TEST_F(TraceTest, ARecordThatWasWrittenInPartIsTheOnlyOneLost) {
  const size_t line_bytes = ToTraceLine(Example())->size() + 1;
  {
    auto writer = TraceWriter::Open({.path = File()});
    ASSERT_TRUE(writer.has_value());
    {
      const FileSizeLimit limit(line_bytes + 100);
      (*writer)->Append(Example());
      (*writer)->Append(Example());
      EXPECT_TRUE(
          test::WaitUntil([&] { return (*writer)->num_dropped() > 0; }, "a record is dropped"));
    }
    (*writer)->Append(Example());
    (*writer)->Append(Example());
  }
  EXPECT_EQ(fs::file_size(File()), 3 * line_bytes + 101);
  auto reader = TraceReader::Open(File());
  ASSERT_TRUE(reader.has_value());
  ASSERT_EQ((*reader)->num_requests(), 4u);
  EXPECT_TRUE((*reader)->Read(0).has_value());
  EXPECT_NE((*reader)->Read(1).error().detail.find(":2: "), std::string::npos);
  EXPECT_TRUE((*reader)->Read(2).has_value());
  EXPECT_TRUE((*reader)->Read(3).has_value());
}

TEST_F(TraceTest, AWriterBeginsANewLineBehindOneThatWasCutShort) {
  Write(*ToTraceLine(Example()) + "\n" + ToTraceLine(Example())->substr(0, 100));
  TraceWriter::Open({.path = File()}).value()->Append(Example());
  auto reader = TraceReader::Open(File());
  ASSERT_TRUE(reader.has_value());
  ASSERT_EQ((*reader)->num_requests(), 3u);
  EXPECT_NE((*reader)->Read(1).error().detail.find(":2: "), std::string::npos);
  EXPECT_TRUE((*reader)->Read(2).has_value());
}

TEST_F(TraceTest, AWriterDropsWhatIsTooMuchAndCounts) {
  auto writer = TraceWriter::Open({.path = File(), .queued_bytes_max = 10});
  ASSERT_TRUE(writer.has_value());
  (*writer)->Append(Example());
  EXPECT_EQ((*writer)->num_dropped(), 1u);
  EXPECT_FALSE(TraceWriter::Open({.path = folder_.path()}).has_value());
}

}  // namespace
}  // namespace kvgate::replay
