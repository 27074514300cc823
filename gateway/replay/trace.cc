#include "gateway/replay/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/utf8.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/ledger/request_record.h"

namespace kvgate::replay {
namespace {

using Element = simdjson::dom::element;
using Object = simdjson::dom::object;
using dialect::form::Endpoint;

constexpr double kMicroseconds = 1e6;
constexpr double kMicrosecondsPerMs = 1e3;
constexpr std::string_view kTimeField = "{\"time\":";
constexpr std::array kEndpoints = {
    Endpoint::kChatCompletions, Endpoint::kCompletions, Endpoint::kResponses, Endpoint::kEmbeddings,
    Endpoint::kMessages,        Endpoint::kCountTokens, Endpoint::kModels,    Endpoint::kOther,
    Endpoint::kGenerateContent, Endpoint::kCountContent};

// The counts of a usage and their names in a trace.
struct Count {
  std::string_view name;
  int64_t ledger::reply::TokenUsage::*value;
};
constexpr std::array kCounts = {
    Count{"uncached_tokens", &ledger::reply::TokenUsage::uncached_tokens},
    Count{"cache_read_tokens", &ledger::reply::TokenUsage::cache_read_tokens},
    Count{"cache_write_tokens", &ledger::reply::TokenUsage::cache_write_tokens},
    Count{"cache_write_1h_tokens", &ledger::reply::TokenUsage::cache_write_1h_tokens},
    Count{"output_tokens", &ledger::reply::TokenUsage::output_tokens}};

Error FieldError(std::string_view field, std::string_view what) {
  return MakeError(ErrorCode::kInvalidArgument, "replay.trace",
                   fmt::format("'{}' must be {}", field, what), std::string(field));
}

// Reads the fields of one line and keeps the first error.
class Line {
 public:
  explicit Line(Object object) : object_(object) {}

  std::string Text(std::string_view name, bool required = false) {
    std::string_view text;
    const auto found = object_[name];
    if (found.error() == simdjson::NO_SUCH_FIELD && !required) return {};
    if (found.get_string().get(text) != simdjson::SUCCESS) Fail(name, "a text");
    return std::string(text);
  }
  double Number(std::string_view name, bool required = false) {
    double number = 0;
    const auto found = object_[name];
    if (found.error() == simdjson::NO_SUCH_FIELD && !required) return 0;
    if (found.get_double().get(number) != simdjson::SUCCESS || !(number >= 0 && number < 1e12)) {
      Fail(name, "a number, not negative");
      return 0;
    }
    return number;
  }
  std::optional<Object> Child(std::string_view name) {
    Object child;
    const auto found = object_[name];
    if (found.error() == simdjson::NO_SUCH_FIELD) return std::nullopt;
    if (found.get_object().get(child) == simdjson::SUCCESS) return child;
    Fail(name, "an object");
    return std::nullopt;
  }
  void Fail(std::string_view field, std::string_view what) {
    if (!error_) error_ = FieldError(field, what);
  }
  std::optional<Error> TakeError() { return std::move(error_); }

 private:
  Object object_;
  std::optional<Error> error_;
};

// Returns the exact bytes of a body that is written as an object.
std::string ObjectBody(const simdjson::padded_string& line) {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::object body;
  std::string_view bytes;
  if (parser.iterate(line).get(document) == simdjson::SUCCESS &&
      document.find_field("body").get_object().get(body) == simdjson::SUCCESS &&
      body.raw_json().get(bytes) == simdjson::SUCCESS) {
    return std::string(bytes);
  }
  return {};
}

int64_t ToMicroseconds(double value, double unit) {
  return static_cast<int64_t>(std::llround(value * unit));
}

std::optional<Endpoint> FindEndpoint(std::string_view name) {
  for (const Endpoint endpoint : kEndpoints) {
    if (ledger::EndpointName(endpoint) == name) return endpoint;
  }
  return std::nullopt;
}

void ReadHeaders(Line& line, TraceRequest& out) {
  const std::optional<Object> headers = line.Child("headers");
  if (!headers) return;
  for (const auto field : *headers) {
    std::string_view value;
    if (field.value.get_string().get(value) != simdjson::SUCCESS) line.Fail("headers", "texts");
    out.headers.push_back({.name = std::string(field.key), .value = std::string(value)});
  }
}

void ReadUsage(Line& line, TraceRequest& out) {
  const std::optional<Object> object = line.Child("usage");
  if (!object) return;
  Line counts(*object);
  ledger::reply::TokenUsage usage;
  for (const Count& count : kCounts) {
    usage.*count.value = static_cast<int64_t>(counts.Number(count.name));
  }
  if (counts.TakeError()) line.Fail("usage", "an object of counts");
  out.usage = usage;
}

Error FileError(const std::filesystem::path& path, std::string_view what, int number) {
  return MakeError(number == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "replay.trace",
                   fmt::format("{}: {}: {}", path.string(), what, std::strerror(number)));
}

// Returns true if the file ends inside a line, because its last writer was killed.
bool EndsInsideALine(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return false;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() <= 0) return false;
  file.seekg(-1, std::ios::end);
  return file.get() != '\n';
}

Error At(const std::filesystem::path& path, size_t number, Error error) {
  error.detail = fmt::format("{}:{}: {}", path.string(), number, error.detail);
  return error;
}

}  // namespace

std::string_view TraceRequest::Header(std::string_view name) const {
  for (const TraceHeader& header : headers) {
    if (header.name == name) return header.value;
  }
  return {};
}

std::optional<std::string> ToTraceLine(const TraceRequest& request) {
  if (!IsValidUtf8(request.body)) return std::nullopt;
  std::string line;
  line.reserve(request.body.size() + request.body.size() / 8 + 512);
  dialect::form::JsonWriter json(line);
  const auto milliseconds = [](int64_t time_us) {
    return fmt::format("{:.3f}", static_cast<double>(time_us) / kMicrosecondsPerMs);
  };
  json.BeginObject();
  json.Key("time").Raw(
      fmt::format("{}.{:06}", request.time_us / 1'000'000, request.time_us % 1'000'000));
  json.Key("tenant").String(request.tenant);
  if (!request.conversation.empty()) json.Key("conversation").String(request.conversation);
  json.Key("endpoint").String(ledger::EndpointName(request.endpoint));
  json.Key("upstream").String(request.upstream);
  json.Key("provider").String(request.provider);
  if (request.is_oauth) json.Key("credential").String("oauth");
  if (!request.headers.empty()) {
    json.Key("headers").BeginObject();
    for (const TraceHeader& header : request.headers) json.Key(header.name).String(header.value);
    json.EndObject();
  }
  if (request.status != 0) json.Key("status").Integer(request.status);
  json.Key("ttft_ms").Raw(milliseconds(request.ttft_us));
  json.Key("total_ms").Raw(milliseconds(request.total_us));
  if (request.usage) {
    json.Key("usage").BeginObject();
    for (const Count& count : kCounts) json.Key(count.name).Integer((*request.usage).*count.value);
    json.EndObject();
  }
  json.Key("body").String(request.body);
  json.EndObject();
  return line;
}

Result<TraceRequest> ParseTraceLine(std::string_view text) {
  simdjson::dom::parser parser;
  Object object;
  const simdjson::padded_string padded(text);
  if (parser.parse(padded).get_object().get(object) != simdjson::SUCCESS) {
    return MakeError(ErrorCode::kInvalidArgument, "replay.trace", "no JSON object");
  }
  Line line(object);
  TraceRequest out;
  out.time_us = ToMicroseconds(line.Number("time", true), kMicroseconds);
  out.tenant = line.Text("tenant");
  out.conversation = line.Text("conversation");
  const std::string endpoint = line.Text("endpoint", true);
  out.endpoint = FindEndpoint(endpoint).value_or(Endpoint::kOther);
  if (!FindEndpoint(endpoint)) line.Fail("endpoint", "the name of an endpoint");
  out.provider = line.Text("provider", true);
  out.upstream = line.Text("upstream");
  if (out.upstream.empty()) out.upstream = out.provider;
  const std::string credential = line.Text("credential");
  out.is_oauth = credential == "oauth";
  if (!credential.empty() && !out.is_oauth) line.Fail("credential", "'oauth', or not there");
  ReadHeaders(line, out);
  ReadUsage(line, out);
  out.status = static_cast<int>(line.Number("status"));
  out.ttft_us = ToMicroseconds(line.Number("ttft_ms"), kMicrosecondsPerMs);
  out.total_us = std::max(out.ttft_us, ToMicroseconds(line.Number("total_ms"), kMicrosecondsPerMs));
  out.body = object["body"].is_object() ? ObjectBody(padded) : line.Text("body", true);
  if (auto error = line.TakeError()) return std::move(*error);
  return out;
}

Result<std::unique_ptr<TraceReader>> TraceReader::Open(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return FileError(path, "the trace cannot be opened", errno);
  std::unique_ptr<TraceReader> reader(new TraceReader(path, std::move(file)));
  KVGATE_TRY_VOID(reader->Index());
  return reader;
}

// Reads only the time, which TraceWriter puts first, so that a large trace opens quickly.
Result<void> TraceReader::Index() {
  std::string line;
  int64_t offset = 0;
  for (size_t number = 1; std::getline(file_, line); ++number) {
    const size_t bytes = line.size();
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      double time = 0;
      if (line.starts_with(kTimeField)) {
        time = std::strtod(line.c_str() + kTimeField.size(), nullptr);
      } else {
        auto parsed = ParseTraceLine(line);
        if (!parsed) return At(path_, number, std::move(parsed).error());
        time = static_cast<double>(parsed->time_us) / kMicroseconds;
      }
      lines_.push_back({.time_us = ToMicroseconds(time, kMicroseconds),
                        .offset = offset,
                        .bytes = bytes,
                        .number = number});
    }
    offset += static_cast<int64_t>(bytes) + 1;
  }
  if (file_.bad()) return FileError(path_, "the trace cannot be read", errno);
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.time_us < b.time_us; });
  return {};
}

Result<TraceRequest> TraceReader::Read(size_t index) {
  const Line& at = lines_[index];
  std::string text(at.bytes, '\0');
  file_.clear();
  file_.seekg(at.offset);
  if (!file_.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    return FileError(path_, "the trace cannot be read", errno);
  }
  auto request = ParseTraceLine(text);
  if (!request) return At(path_, at.number, std::move(request).error());
  return request;
}

Result<std::unique_ptr<TraceWriter>> TraceWriter::Open(const Options& options) {
  const int file = ::open(options.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return FileError(options.path, "the trace cannot be opened for writing", errno);
  if (::fchmod(file, 0600) != 0) {
    const int number = errno;
    ::close(file);
    return FileError(options.path, "the trace cannot be made readable for its owner only", number);
  }
  return std::unique_ptr<TraceWriter>(new TraceWriter(options, file));
}

TraceWriter::TraceWriter(const Options& options, int file)
    : options_(options),
      file_(file),
      is_line_open_(EndsInsideALine(options.path)),
      thread_([this] { Run(); }) {}

TraceWriter::~TraceWriter() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
  ::close(file_);
}

void TraceWriter::Append(const TraceRequest& request) {
  std::optional<std::string> line = ToTraceLine(request);
  const std::lock_guard lock(mutex_);
  if (!line || queued_bytes_ + line->size() > options_.queued_bytes_max) {
    ++num_dropped_;
    return;
  }
  *line += '\n';
  queued_bytes_ += line->size();
  queue_.push_back(std::move(*line));
  wake_.notify_one();
}

uint64_t TraceWriter::num_dropped() const {
  const std::lock_guard lock(mutex_);
  return num_dropped_;
}

void TraceWriter::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ended_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::string line = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    // Behind a broken line a new one begins, so that only the broken one is lost.
    if (is_line_open_ && WriteSome("\n") == 1) is_line_open_ = false;
    const size_t written = is_line_open_ ? 0 : WriteSome(line);
    const bool is_written = written == line.size();
    is_line_open_ = is_line_open_ || (written > 0 && !is_written);
    lock.lock();
    queued_bytes_ -= line.size();
    if (!is_written) ++num_dropped_;
  }
}

size_t TraceWriter::WriteSome(std::string_view text) const {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(file_, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    written += static_cast<size_t>(count);
  }
  return written;
}

}  // namespace kvgate::replay
