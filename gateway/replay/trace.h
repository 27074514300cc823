// A trace holds recorded requests, one JSON object per line (README.md has the format). The body is
// kept byte for byte and holds prompt text, but never a credential. Files are created with mode
// 0600.
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

#include "base/result.h"
#include "gateway/dialect/form/dialect.h"
#include "gateway/ledger/reply/usage.h"

namespace kvgate::replay {

struct TraceHeader {
  std::string name;  // lower case
  std::string value;
};

struct TraceRequest {
  int64_t time_us = 0;       // when it was received, since 1970
  std::string tenant;        // a name or a hash
  std::string conversation;  // name of its conversation; empty if unknown
  dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
  std::string upstream;
  std::string provider;
  bool is_oauth = false;  // sent with the credential of a subscription
  std::vector<TraceHeader> headers;
  std::string body;  // as received, without its content-encoding
  int status = 0;    // of its answer; 0 if unknown
  std::optional<ledger::reply::TokenUsage> usage;
  int64_t ttft_us = 0;                                   // until its answer began
  int64_t total_us = 0;                                  // until its answer ended
  std::string_view Header(std::string_view name) const;  // empty if it is missing
};

// Returns one line without its newline; nullopt if the body is not UTF-8, which JSON cannot hold.
std::optional<std::string> ToTraceLine(const TraceRequest& request);
// Fails with kInvalidArgument, which names the field.
Result<TraceRequest> ParseTraceLine(std::string_view line);

// Reads a trace in time order; its lines may stand in any order. Not thread-safe.
class TraceReader {
 public:
  // Fails with kNotFound or kIo, or with kInvalidArgument that names the line that cannot be read.
  static Result<std::unique_ptr<TraceReader>> Open(const std::filesystem::path& path);
  size_t num_requests() const { return lines_.size(); }
  // Fails with kInvalidArgument, which names the line and field, or kIo. REQUIRES: index <
  // num_requests().
  Result<TraceRequest> Read(size_t index);

 private:
  struct Line {
    int64_t time_us = 0;
    int64_t offset = 0;
    size_t bytes = 0;
    size_t number = 0;  // in the file, from 1
  };
  TraceReader(std::filesystem::path path, std::ifstream file)
      : path_(std::move(path)), file_(std::move(file)) {}
  Result<void> Index();

  const std::filesystem::path path_;
  std::ifstream file_;
  std::vector<Line> lines_;
};

// Appends to a trace on a thread of its own, so that Append never waits for a disk. A record that
// could be written in part only leaves a line that TraceReader names as broken; the next record
// begins a new line. Thread-safe.
class TraceWriter {
 public:
  struct Options {
    std::filesystem::path path;
    size_t queued_bytes_max = size_t{256} << 20;  // lines beyond it are dropped and counted
  };
  // Sets the file's mode to 0600, even if it exists. Fails with kNotFound or kIo.
  static Result<std::unique_ptr<TraceWriter>> Open(const Options& options);
  // Writes all appended requests first.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void Append(const TraceRequest& request);
  // Requests not written, because of invalid UTF-8, a full queue or a disk error.
  uint64_t num_dropped() const;

 private:
  TraceWriter(const Options& options, int file);
  void Run();
  // Returns how many bytes were written; fewer than there are after an error.
  size_t WriteSome(std::string_view text) const;

  const Options options_;
  const int file_;
  bool is_line_open_;  // the file ends inside a line; used by the thread only
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::string> queue_;
  size_t queued_bytes_ = 0;
  uint64_t num_dropped_ = 0;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace kvgate::replay
