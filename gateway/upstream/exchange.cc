#include "gateway/upstream/exchange.h"

#include <fmt/format.h>

#include <boost/asio/ssl/error.hpp>
#include <boost/beast/http/error.hpp>
#include <utility>

namespace kvgate::upstream {

using wire::Task;

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;

// Limits an answer's head; providers' are about 2 KiB.
constexpr uint32_t kHeadBytesMax = 64 * 1024;
// One or two 103 answers are usual; more than this many would only delay the request.
constexpr int kInterimAnswersMax = 64;
// TLS writes each buffer in a record and packet of its own, so small bodies are joined with their
// head.
constexpr size_t kJoinedBytes = 16 * 1024;

std::string Unreadable(const beast::error_code& code) {
  return fmt::format("its answer cannot be read: {}", code.message());
}

std::string_view ToView(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Exchange::~Exchange() {
  const bool clean = finished_ && channel_ && parser_ && parser_->keep_alive() && sent_ &&
                     buffer_.size() == 0 && !aborted_ && !timed_out_;
  if (clean) upstream_.Keep(std::move(channel_));
  DropChannel();
  if (reserved_) upstream_.Release();
  wire::ReturnReadBuffer(std::move(buffer_));
}

Task<Result<void>> Exchange::Start(Request request) {
  head_only_ = request.head_only;
  const auto now = Clock::now();
  if (!upstream_.breaker().Allow(now)) {
    Error error = MakeError(
        ErrorCode::kOverloaded, "upstream",
        fmt::format("The upstream '{}' has failed several times in a row; it is not asked for "
                    "a while.",
                    upstream_.name()));
    error.retry_after_seconds = upstream_.breaker().retry_after_seconds(now);
    co_return error;
  }
  reserved_ = upstream_.Reserve();
  if (!reserved_) {
    co_return MakeError(ErrorCode::kOverloaded, "upstream",
                        fmt::format("All {} connections to the upstream '{}' are in use.",
                                    upstream_.config().connections, upstream_.name()));
  }
  while (true) {
    ++num_attempts_;
    const Attempt attempt = co_await TryOnce(request);
    if (attempt == Attempt::kDone) {
      upstream_.breaker().Succeed();
      co_return Result<void>();
    }
    DropChannel();
    if (!MayRetry(attempt)) break;
    error_.reset();
  }
  // A client that has left says nothing about its upstream's health.
  if (!aborted_) upstream_.breaker().Fail(Clock::now());
  co_return std::move(*error_);
}

bool Exchange::MayRetry(Attempt attempt) const {
  const config::UpstreamConfig& config = upstream_.config();
  if (aborted_ || timed_out_ || config.retry == "none") return false;
  if (attempt == Attempt::kNoAnswer && config.retry != "reset") return false;
  return attempt != Attempt::kFailed && num_attempts_ <= config.retries;
}

Task<Exchange::Attempt> Exchange::TryOnce(Request request) {
  any_byte_ = false;
  buffer_.clear();
  // After a kept connection has failed, the other kept ones are likely to be closed too.
  if (num_attempts_ == 1) channel_ = upstream_.TakeKept(executor_);
  reused_ = channel_ != nullptr;
  if (!reused_) {
    const bool connected = co_await Connect();
    if (!connected) co_return timed_out_ ? Attempt::kFailed : Attempt::kNotReceived;
  }
  times_.connected = Clock::now();
  Enter(Stage::kWaiting);
  BeginSending(request);
  const bool answered = co_await ReadHead();
  if (answered) co_return Attempt::kDone;
  if (any_byte_ || timed_out_ || aborted_) co_return Attempt::kFailed;
  co_return !sent_ && reused_ ? Attempt::kNotReceived : Attempt::kNoAnswer;
}

void Exchange::BeginSending(Request request) {
  sent_ = false;
  wire::WriteParts parts = {request.head, request.body};
  if (wire::WriteNow(*channel_, parts)) {
    EndSending(true);
    return;
  }
  sending_ = std::make_shared<Sending>();
  sending_->exchange = this;
  if (channel_->secure() && request.body.size() <= kJoinedBytes) {
    sending_->joined = fmt::format("{}{}", request.head, request.body);
    parts = {sending_->joined};
  }
  wire::WriteRest(*channel_, parts,
                  [sending = sending_](const boost::system::error_code& code, size_t) {
                    if (sending->exchange != nullptr) sending->exchange->EndSending(!code);
                  });
}

// A connection that takes no more bytes may still deliver an answer, so no error is raised here.
void Exchange::EndSending(bool sent) {
  sending_.reset();
  sent_ = sent;
  if (!sent) return;
  times_.sent = Clock::now();
  if (on_sent_) std::exchange(on_sent_, {})();
}

Task<bool> Exchange::Connect() {
  channel_ = std::make_unique<wire::Channel>(executor_);
  Enter(Stage::kConnecting);
  const Result<void> connected = co_await upstream_.Connect(*channel_);
  if (aborted_ || timed_out_) {
    error_ = StageError();
    co_return false;
  }
  if (!connected) {
    Fail(ErrorCode::kUnavailable, connected.error().detail);
    co_return false;
  }
  co_return true;
}

// Skips interim answers.
Task<bool> Exchange::ReadHead() {
  int num_interim = 0;
  while (true) {
    parser_.emplace();
    parser_->header_limit(kHeadBytesMax);
    parser_->body_limit(boost::none);
    fields_.clear();
    parser_->skip(head_only_);
    beast::error_code parsed = Parse();
    while (!parsed && !parser_->is_header_done()) {
      const boost::system::error_code code = co_await ReadSome();
      if (aborted_ || timed_out_) {
        error_ = StageError();
        co_return false;
      }
      if (code) {
        Fail(ErrorCode::kUnavailable,
             any_byte_
                 ? fmt::format("its answer broke off in its head: {}", code.message())
                 : fmt::format("it closed the connection without an answer: {}", code.message()));
        co_return false;
      }
      if (!std::exchange(any_byte_, true)) times_.first_byte = Clock::now();
      parsed = Parse();
    }
    // A valid head before a malformed body counts as an answer that was cut; Read reports it.
    const bool head_done = parser_->is_header_done();
    const int code = head_done ? status() : 0;
    if (!head_done || code == 101) {
      Fail(ErrorCode::kUnavailable,
           parsed ? Unreadable(parsed) : "its answer switched protocols, unasked");
      co_return false;
    }
    if (const std::string_view fault = FramingFault(); !fault.empty()) {
      Fail(ErrorCode::kUnavailable, fmt::format("its answer cannot be read: {}", fault));
      co_return false;
    }
    if (parsed) Fail(ErrorCode::kUnavailable, Unreadable(parsed));
    if (parsed || code >= 200) break;
    if (++num_interim > kInterimAnswersMax) {
      Fail(ErrorCode::kUnavailable, "it sent interim answers without an end");
      co_return false;
    }
  }
  finished_ = parser_->is_done();
  co_return true;
}

Task<boost::system::error_code> Exchange::ReadSome() {
  auto [code, size] =
      co_await channel_->async_read_some(buffer_.prepare(piece_bytes_), wire::kAwait);
  buffer_.commit(size);
  if (size == piece_bytes_) piece_bytes_ = kPieceBytesMax;
  co_return code;
}

// If a piece of the body is malformed, the bytes before it are still passed on.
beast::error_code Exchange::Parse() {
  beast::error_code code;
  while (buffer_.size() > 0 && !parser_->is_done()) {
    const bool in_head = !parser_->is_header_done();
    const size_t used = parser_->put(buffer_.data(), code);
    buffer_.consume(used);
    if (in_head && parser_->is_header_done()) KeepFields();
    // A chunk's head and the trailers are parsed only as a whole and wait in the buffer until then.
    if (code == bhttp::error::need_more && buffer_.size() > kHeadBytesMax) {
      return bhttp::error::buffer_overflow;
    }
    if (code == bhttp::error::need_more) return {};
    if (code) return code;
    if (used == 0) break;
  }
  return code;
}

std::string Exchange::TakeReady() { return std::exchange(parser_->get().body(), {}); }

Task<Result<std::string>> ReadRest(Exchange& exchange, size_t bytes_max) {
  std::string rest;
  while (rest.size() <= bytes_max) {
    Result<std::string> piece = co_await exchange.Read();
    if (!piece) co_return piece.error();
    if (piece->empty()) break;
    rest += *piece;
  }
  co_return std::move(rest);
}

Task<Result<std::string>> Fetch(Exchange& exchange, Exchange::Request request, size_t bytes_max) {
  const Result<void> begun = co_await exchange.Start(request);
  if (!begun) co_return begun.error();
  co_return co_await ReadRest(exchange, bytes_max);
}

Task<Result<std::string>> Exchange::Read() {
  while (true) {
    std::string ready = TakeReady();
    if (!ready.empty() || finished_) co_return std::move(ready);
    if (error_) co_return *error_;
    Enter(Stage::kReading);
    const boost::system::error_code code = co_await ReadSome();
    Enter(Stage::kIdle);
    if (aborted_ || timed_out_) co_return StageError();
    beast::error_code parsed;
    if (code == asio::error::eof && !parser_->content_length() && !parser_->chunked()) {
      parser_->put_eof(parsed);
    } else if (code) {
      Fail(ErrorCode::kUnavailable, fmt::format("its answer broke off: {}", code.message()));
      continue;
    } else {
      parsed = Parse();
    }
    if (parsed) {
      Fail(ErrorCode::kUnavailable, Unreadable(parsed));
      continue;
    }
    finished_ = parser_->is_done();
  }
}

int Exchange::status() const { return static_cast<int>(parser_->get().result_int()); }

std::string_view Exchange::reason() const { return ToView(parser_->get().reason()); }

// Copies the headers when the head ends, because the parser later adds trailers to them; it pauses
// once at that point.
void Exchange::KeepFields() {
  parser_->eager(true);
  fields_.reserve(32);
  for (const auto& field : parser_->get()) {
    fields_.push_back({.name = ToView(field.name_string()), .value = ToView(field.value())});
  }
}

// The parser itself refuses differing lengths, and a length beside chunks.
std::string_view Exchange::FramingFault() const {
  const std::string_view coding = wire::FindHeader(fields_, "transfer-encoding");
  if (coding.empty() || wire::SameName(coding, "chunked")) return "";
  return "its transfer coding is not chunked";
}

bool Exchange::length_unknown() const {
  const bool bodiless = head_only_ || status() == 204 || status() == 304;
  return !bodiless && !parser_->content_length();
}

void Exchange::Enter(Stage stage) {
  const config::UpstreamConfig& config = upstream_.config();
  stage_ = stage;
  deadline_ = Clock::time_point::max();
  if (stage == Stage::kConnecting) {
    deadline_ = Clock::now() + std::chrono::milliseconds(config.connect_timeout_ms);
  } else if (stage == Stage::kWaiting) {
    deadline_ = Clock::now() + std::chrono::seconds(config.first_byte_timeout_seconds);
  } else if (stage == Stage::kReading) {
    deadline_ = Clock::now() + std::chrono::seconds(config.idle_timeout_seconds);
  }
}

void Exchange::Tick(Clock::time_point now) {
  if ((now < deadline_ && now < end_) || timed_out_) return;
  timed_out_ = true;
  if (channel_) channel_->Close();
}

void Exchange::Abort() {
  aborted_ = true;
  if (channel_) channel_->Close();
}

void Exchange::DropChannel() {
  if (sending_) {
    channel_->Reset();
    sending_->exchange = nullptr;
    sending_->channel = std::move(channel_);
    sending_.reset();
  }
  if (channel_) channel_->Close();
  channel_.reset();
}

void Exchange::Fail(ErrorCode code, std::string detail) {
  error_ = MakeError(code, "upstream",
                     fmt::format("The upstream '{}' failed: {}.", upstream_.name(), detail));
}

Error Exchange::StageError() const {
  if (aborted_) return MakeError(ErrorCode::kCancelled, "upstream", "The request was cancelled.");
  const config::UpstreamConfig& config = upstream_.config();
  std::string what;
  if (stage_ == Stage::kConnecting) {
    what = fmt::format("could not be connected to within {} ms", config.connect_timeout_ms);
  } else if (stage_ == Stage::kReading || stage_ == Stage::kIdle) {
    what = fmt::format("sent nothing for {} s", config.idle_timeout_seconds);
  } else {
    what = fmt::format("did not answer within {} s", config.first_byte_timeout_seconds);
  }
  return MakeError(ErrorCode::kDeadline, "upstream",
                   fmt::format("The upstream '{}' {}.", upstream_.name(), what));
}

}  // namespace kvgate::upstream
