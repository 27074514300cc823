// Trace: recorded requests, one JSON object a line (README.md has the format). The body is kept
// byte for byte and holds prompt text; a credential never is. Files are made with mode 0600.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <kvgate/result.h>

#include "gateway/ledger/usage.h"
#include "gateway/upstream/dialect.h"

namespace kvgate::replay {

struct TraceHeader {
  std::string name;  // lower case
  std::string value;
};

struct TraceRequest {
  int64_t time_us = 0;       // when it was received, since 1970
  std::string tenant;        // a name or a hash
  std::string conversation;  // what it is known to belong to; empty: not known
  upstream::Endpoint endpoint = upstream::Endpoint::kOther;
  std::string upstream;
  std::string provider;
  bool is_oauth = false;  // its credential was a subscription's
  std::vector<TraceHeader> headers;
  std::string body;  // as received, without a content-encoding
  int status = 0;    // of its answer; 0: not known
  std::optional<ledger::TokenUsage> usage;
  int64_t ttft_us = 0;                                   // until its answer began
  int64_t total_us = 0;                                  // until it ended
  std::string_view Header(std::string_view name) const;  // empty: none
};

// One line, without its end. Nothing where the body is not UTF-8: JSON cannot hold it.
std::optional<std::string> ToTraceLine(const TraceRequest& request);
// kInvalidArgument names the field.
Result<TraceRequest> ParseTraceLine(std::string_view line);

// Reads a trace in the order of its times; lines may stand in any. Not thread-safe.
class TraceReader {
 public:
  // kNotFound, kIo; kInvalidArgument names the line that has no time.
  static Result<std::unique_ptr<TraceReader>> Open(const std::filesystem::path& path);
  size_t num_requests() const { return lines_.size(); }
  // kInvalidArgument names the line and the field. REQUIRES: index < num_requests().
  Result<TraceRequest> Read(size_t index);

 private:
  struct Line {
    int64_t time_us = 0;
    int64_t offset = 0;
    size_t bytes = 0;
    size_t number = 0;  // in the file, from 1 on
  };
  TraceReader(std::filesystem::path path, std::ifstream file)
      : path_(std::move(path)), file_(std::move(file)) {}
  Result<void> Index();

  const std::filesystem::path path_;
  std::ifstream file_;
  std::vector<Line> lines_;
};

// Appends to a trace on a thread of its own: Append never waits for a disk. Thread-safe.
class TraceWriter {
 public:
  struct Options {
    std::filesystem::path path;
    size_t queued_bytes_max = size_t{256} << 20;  // what is more is dropped, and counted
  };
  // Made with mode 0600, whatever it was. kIo.
  static Result<std::unique_ptr<TraceWriter>> Open(const Options& options);
  // All that was appended is in the file.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void Append(const TraceRequest& request);
  // Not written: no UTF-8, the queue was full, or the disk refused.
  uint64_t num_dropped() const;

 private:
  TraceWriter(const Options& options, int file);
  void Run();

  const Options options_;
  const int file_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::string> queue_;
  size_t queued_bytes_ = 0;
  uint64_t num_dropped_ = 0;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace kvgate::replay
