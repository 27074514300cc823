// SimulatedReply is what a simulated provider sends for one request: a good answer in its dialect,
// and what goes wrong with it. It knows what a client may make of that.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/ledger/reply/usage.h"
#include "tests/gateway/proxy/simulation/simulated_time.h"
#include "tests/gateway/upstream/encoders.h"

namespace kvgate::test {

// Everything random of a simulation, by its seed.
class SimulatedChance {
 public:
  explicit SimulatedChance(uint64_t seed) : random_(seed) {}
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool Percent(uint64_t percent) { return Below(100) < percent; }
  SimulatedTime::Duration Time(std::chrono::milliseconds from, std::chrono::milliseconds to) {
    return from +
           std::chrono::microseconds(Below(static_cast<uint64_t>((to - from).count()) * 1000));
  }

 private:
  std::mt19937_64 random_;
};

enum class Fault : uint8_t {
  kNone,
  // While connecting.
  kRefusedConnection,
  kUnknownHost,
  kSilentHost,
  // Before an answer.
  kResetAtOnce,
  kResetBehindRequest,
  kClosedWithoutAnswer,
  kStallBeforeHead,
  kClosedAtReuse,
  // In its head.
  kGarbageHead,
  kOversizedHead,
  kInterimAnswers,
  kEndlessInterimAnswers,
  kSwitchedProtocols,
  kTwoLengths,
  kClosedInHead,
  kResetInHead,
  // Its status.
  kTooManyRequests,
  kTooManyRequestsRetry,
  kServerError,
  kUnavailable,
  kUnavailableRetry,
  kBadRequest,
  kHugeError,
  kEncodedError,
  kEarlyAnswer,
  // Its body.
  kClosedInBody,
  kResetInBody,
  kStallInBody,
  kTrickle,
  kDamagedChunk,
  kLengthTooLong,
  kLengthTooShort,
  kUntilClose,
  kNoFinalEvent,
  kDamagedGzip,
  kDamagedBrotli,
  kHugeAnswer,
  kHalfClosed,
  kCount,
};
inline constexpr size_t kNumFaults = static_cast<size_t>(Fault::kCount);
inline constexpr std::array<const char*, kNumFaults> kFaultNames = {
    "none",
    "refused connection",
    "unknown host",
    "silent host",
    "reset at once",
    "reset behind request",
    "closed without answer",
    "stall before head",
    "closed at reuse",
    "garbage head",
    "oversized head",
    "interim answers",
    "endless interim answers",
    "switched protocols",
    "two lengths",
    "closed in head",
    "reset in head",
    "429",
    "429 with retry-after",
    "500",
    "503",
    "503 with retry-after",
    "400",
    "huge error",
    "encoded error",
    "early answer",
    "closed in body",
    "reset in body",
    "stall in body",
    "trickle",
    "damaged chunk",
    "length too long",
    "length too short",
    "until close",
    "no final event",
    "damaged gzip",
    "damaged brotli",
    "huge answer",
    "half closed",
};

struct SimulatedReply {
  using Duration = SimulatedTime::Duration;
  enum class End : uint8_t { kKeep, kClose, kReset, kHold, kHalfClose };
  struct Step {
    Duration pause{0};  // before the bytes
    std::string bytes;
  };
  Fault fault = Fault::kNone;
  std::vector<Step> steps = {};
  End end = End::kKeep;
  // What a client can make of it.
  bool has_head = true;   // a head that can be read comes in time
  bool is_whole = true;   // its body comes to its end, as far as framing can tell
  bool is_sound = true;   // the body is undamaged, and has its final event
  bool is_early = false;  // it does not wait for the request's body
  int status = 200;
  bool is_stream = false;
  std::string encoding = {};
  std::string plain = {};  // the body without its encoding
  std::string body = {};   // as sent, but for its framing
  std::optional<ledger::reply::TokenUsage> usage = {};

  Duration duration() const {
    Duration sum{0};
    for (const Step& step : steps) sum += step.pause;
    return sum;
  }
};

// The request that a provider got, as far as its answer depends on it.
struct AskedReply {
  enum class Form : uint8_t { kChat, kResponses, kMessages };
  Form form = Form::kChat;
  bool is_stream = false;
  std::string marker =
      {};  // "ask-NUMBER-TENANT", which the answer repeats as "reply-NUMBER-TENANT"
  std::string credential = {};  // which a refusal repeats
  int number = 0;
};

// Makes replies. Timeouts are the upstream's.
class ReplyMaker {
 public:
  struct Timeouts {
    std::chrono::milliseconds first_byte{1'000};
    std::chrono::milliseconds idle{1'000};
    std::chrono::milliseconds tick{250};  // they are looked at this often
  };
  explicit ReplyMaker(SimulatedChance& chance) : chance_(chance) {}

  // The fault is not one of those while connecting.
  SimulatedReply Make(Fault fault, const AskedReply& asked, const Timeouts& timeouts) {
    reply_ = SimulatedReply{.fault = fault};
    timeouts_ = timeouts;
    MakeBody(asked);
    MakeFraming();
    Spoil();
    return std::move(reply_);
  }

 private:
  using Step = SimulatedReply::Step;
  using End = SimulatedReply::End;
  using milliseconds = std::chrono::milliseconds;
  enum class Framing : uint8_t { kLength, kChunks, kClose };

  bool Is(std::initializer_list<Fault> faults) const {
    return std::find(faults.begin(), faults.end(), reply_.fault) != faults.end();
  }

  // --- The body

  void MakeBody(const AskedReply& asked) {
    reply_.is_stream = asked.is_stream;
    text_ = "reply" + asked.marker.substr(3);
    marker_size_ = text_.size();
    for (uint64_t i = chance_.Below(30); i > 0; --i) text_ += " and so on";
    if (reply_.fault == Fault::kHugeAnswer) text_.append(200'000 + chance_.Below(500'000), 'x');
    const int64_t cached = static_cast<int64_t>(chance_.Below(3)) * 128;
    usage_ = {.uncached_tokens = 20 + asked.number,
              .cache_read_tokens = cached,
              .output_tokens = 1 + static_cast<int64_t>(chance_.Below(40))};
    if (asked.form == AskedReply::Form::kChat) MakeChat();
    if (asked.form == AskedReply::Form::kResponses) MakeResponse();
    if (asked.form == AskedReply::Form::kMessages) MakeMessage();
    if (IsError()) MakeError(asked);
    if (reply_.fault == Fault::kNoFinalEvent) DropFinalEvent();
    for (const std::string& piece : pieces_) reply_.plain += piece;
    if (Is({Fault::kDamagedGzip, Fault::kEncodedError})) reply_.encoding = "gzip";
    if (reply_.fault == Fault::kDamagedBrotli) reply_.encoding = "br";
    if (reply_.fault == Fault::kNone && chance_.Percent(8)) reply_.encoding = "gzip";
    if (!reply_.encoding.empty()) {
      pieces_ = {upstream::Encode(reply_.encoding, reply_.plain)};
      if (Is({Fault::kDamagedGzip, Fault::kDamagedBrotli})) Damage(pieces_[0]);
    }
    for (const std::string& piece : pieces_) reply_.body += piece;
  }

  bool IsError() const {
    return reply_.fault >= Fault::kTooManyRequests && reply_.fault <= Fault::kEarlyAnswer;
  }
  // The damage is in the data, so that a decoder that looks at checksums or at codes finds it.
  void Damage(std::string& encoded) {
    reply_.is_sound = false;
    const size_t from = encoded.size() / 3;
    for (size_t i = from; i < encoded.size(); ++i) encoded[i] = static_cast<char>(~encoded[i]);
  }
  void DropFinalEvent() {
    if (!reply_.is_stream) {
      pieces_[0].resize(pieces_[0].size() / 2);
      reply_.usage.reset();
    } else {
      pieces_.resize(pieces_.size() / 2);
    }
    reply_.is_sound = false;
  }

  void MakeError(const AskedReply& asked) {
    static constexpr std::pair<Fault, int> kStatuses[] = {
        {Fault::kTooManyRequests, 429},  {Fault::kTooManyRequestsRetry, 429},
        {Fault::kServerError, 500},      {Fault::kUnavailable, 503},
        {Fault::kUnavailableRetry, 503}, {Fault::kBadRequest, 400},
        {Fault::kHugeError, 400},        {Fault::kEncodedError, 422},
        {Fault::kEarlyAnswer, 413}};
    for (const auto& [fault, status] : kStatuses) {
      if (fault == reply_.fault) reply_.status = status;
    }
    if (Is({Fault::kTooManyRequestsRetry, Fault::kUnavailableRetry})) retry_after_ = "7";
    reply_.is_early = reply_.fault == Fault::kEarlyAnswer;
    reply_.is_stream = false;
    reply_.usage.reset();
    const std::string more(reply_.fault == Fault::kHugeError ? 1'300'000 : 0, 'e');
    pieces_ = {
        fmt::format(R"({{"type":"error","error":{{"type":"some_error","message":"{} of {}{}"}}}})",
                    text_, asked.credential, more)};
  }

  std::string InclusiveUsage(std::string_view input, std::string_view output) const {
    return fmt::format(R"("usage":{{"{0}_tokens":{2},"{0}_tokens_details":{{"cached_tokens":{3}}},)"
                       R"("{1}_tokens":{4},"total_tokens":{5}}})",
                       input, output, usage_.input_tokens(), usage_.cache_read_tokens,
                       usage_.output_tokens, usage_.input_tokens() + usage_.output_tokens);
  }

  // The text in a few parts, as models say it.
  std::vector<std::string_view> Parts() {
    std::vector<std::string_view> parts;
    std::string_view rest = text_;
    while (!rest.empty()) {
      size_t size = std::min(rest.size(), 1 + chance_.Below(text_.size() > 5000 ? 60'000 : 60));
      // The beginning, by which answers are told apart, stays in one piece.
      if (parts.empty()) size = std::max(size, std::min(rest.size(), marker_size_));
      parts.push_back(rest.substr(0, size));
      rest.remove_prefix(size);
    }
    return parts;
  }

  void MakeChat() {
    reply_.usage = usage_;
    const std::string usage = InclusiveUsage("prompt", "completion");
    if (!reply_.is_stream) {
      pieces_ = {fmt::format(
          R"({{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[)"
          R"({{"index":0,"message":{{"role":"assistant","content":"{}"}},)"
          R"("finish_reason":"stop"}}],{}}})",
          text_, usage)};
      return;
    }
    const auto chunk = [](std::string_view delta, std::string_view reason) {
      return fmt::format(
          R"(data: {{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m",)"
          R"("choices":[{{"index":0,"delta":{},"finish_reason":{}}}]}})"
          "\n\n",
          delta, reason);
    };
    pieces_ = {chunk(R"({"role":"assistant","content":""})", "null")};
    for (const std::string_view part : Parts()) {
      pieces_.push_back(chunk(fmt::format(R"({{"content":"{}"}})", part), "null"));
    }
    pieces_.push_back(chunk("{}", R"("stop")"));
    pieces_.push_back(
        fmt::format(R"(data: {{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m",)"
                    R"("choices":[],{}}})"
                    "\n\n",
                    usage));
    pieces_.push_back("data: [DONE]\n\n");
  }

  void MakeResponse() {
    reply_.usage = usage_;
    const std::string whole = fmt::format(
        R"({{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m",)"
        R"("output":[{{"type":"message","id":"msg_1","status":"completed","role":"assistant",)"
        R"("content":[{{"type":"output_text","text":"{}","annotations":[]}}]}}],{}}})",
        text_, InclusiveUsage("input", "output"));
    if (!reply_.is_stream) {
      pieces_ = {whole};
      return;
    }
    const auto event = [](std::string_view name, std::string_view rest) {
      return fmt::format("event: {0}\ndata: {{\"type\":\"{0}\",{1}}}\n\n", name, rest);
    };
    pieces_.clear();
    for (const std::string_view part : Parts()) {
      pieces_.push_back(
          event("response.output_text.delta", fmt::format(R"("item_id":"msg_1","output_index":0,)"
                                                          R"("content_index":0,"delta":"{}")",
                                                          part)));
    }
    pieces_.push_back(event("response.completed", fmt::format(R"("response":{})", whole)));
  }

  void MakeMessage() {
    reply_.usage = usage_;
    const auto usage = [this](int64_t output) {
      return fmt::format(R"("usage":{{"input_tokens":{},"cache_read_input_tokens":{},)"
                         R"("cache_creation_input_tokens":0,"output_tokens":{}}})",
                         usage_.uncached_tokens, usage_.cache_read_tokens, output);
    };
    constexpr std::string_view kHead =
        R"("id":"m1","type":"message","role":"assistant","model":"m",)";
    if (!reply_.is_stream) {
      pieces_ = {fmt::format(R"({{{}"content":[{{"type":"text","text":"{}"}}],)"
                             R"("stop_reason":"end_turn","stop_sequence":null,{}}})",
                             kHead, text_, usage(usage_.output_tokens))};
      return;
    }
    const auto event = [](std::string_view name, std::string_view rest) {
      return fmt::format("event: {0}\ndata: {{\"type\":\"{0}\"{1}}}\n\n", name, rest);
    };
    pieces_ = {
        event("message_start", fmt::format(R"(,"message":{{{}"content":[],"stop_reason":null,)"
                                           R"("stop_sequence":null,{}}})",
                                           kHead, usage(1))),
        event("content_block_start", R"(,"index":0,"content_block":{"type":"text","text":""})")};
    for (const std::string_view part : Parts()) {
      pieces_.push_back(
          event("content_block_delta",
                fmt::format(R"(,"index":0,"delta":{{"type":"text_delta","text":"{}"}})", part)));
    }
    pieces_.push_back(event("content_block_stop", R"(,"index":0)"));
    pieces_.push_back(
        event("message_delta", fmt::format(R"(,"delta":{{"stop_reason":"end_turn","stop_sequence":)"
                                           R"(null}},"usage":{{"output_tokens":{}}})",
                                           usage_.output_tokens)));
    pieces_.push_back(event("message_stop", ""));
  }

  // --- The bytes

  void MakeFraming() {
    framing_ = reply_.is_stream && reply_.encoding.empty() ? Framing::kChunks : Framing::kLength;
    if (framing_ == Framing::kLength && chance_.Percent(20)) framing_ = Framing::kChunks;
    if (reply_.fault == Fault::kUntilClose) framing_ = Framing::kClose;
    if (reply_.fault == Fault::kDamagedChunk) framing_ = Framing::kChunks;
    if (Is({Fault::kLengthTooLong, Fault::kLengthTooShort})) framing_ = Framing::kLength;
    std::string head =
        fmt::format("HTTP/1.1 {} Said\r\ncontent-type: {}\r\nx-request-id: up-1\r\n", reply_.status,
                    reply_.is_stream ? "text/event-stream" : "application/json");
    if (!reply_.encoding.empty()) head += fmt::format("content-encoding: {}\r\n", reply_.encoding);
    if (!retry_after_.empty()) head += fmt::format("retry-after: {}\r\n", retry_after_);
    size_t length = reply_.body.size();
    if (reply_.fault == Fault::kLengthTooLong) length += 1 + chance_.Below(100);
    if (framing_ == Framing::kLength) head += fmt::format("content-length: {}\r\n", length);
    if (framing_ == Framing::kChunks) head += "transfer-encoding: chunked\r\n";
    reply_.steps = {
        {.pause = chance_.Time(milliseconds(0), milliseconds(150)), .bytes = head + "\r\n"}};
    const bool is_steady = chance_.Percent(40);
    for (const std::string& piece : pieces_) {
      std::string bytes =
          framing_ == Framing::kChunks ? fmt::format("{:x}\r\n{}\r\n", piece.size(), piece) : piece;
      if (is_steady) {
        reply_.steps.push_back(
            {.pause = chance_.Time(milliseconds(0), milliseconds(60)), .bytes = std::move(bytes)});
      } else {
        reply_.steps.back().bytes += bytes;
      }
    }
    if (framing_ == Framing::kChunks) reply_.steps.back().bytes += "0\r\n\r\n";
    retry_after_.clear();
  }

  milliseconds Beyond(milliseconds timeout) const {
    return timeout + 2 * timeouts_.tick + milliseconds(500);
  }
  std::string Bytes() const {
    std::string bytes;
    for (const Step& step : reply_.steps) bytes += step.bytes;
    return bytes;
  }
  size_t HeadSize() const { return reply_.steps[0].bytes.find("\r\n\r\n") + 4; }

  // Keeps only this many bytes of the answer.
  void CutAt(size_t size, End end) {
    for (size_t i = 0; i < reply_.steps.size(); ++i) {
      std::string& bytes = reply_.steps[i].bytes;
      if (size <= bytes.size()) {
        bytes.resize(size);
        reply_.steps.resize(i + 1);
        break;
      }
      size -= bytes.size();
    }
    reply_.end = end;
  }
  void CutInBody(End end) {
    const size_t head = HeadSize();
    // Before the last byte of what ends the body.
    const size_t framing = framing_ == Framing::kChunks ? 5 : 0;
    const size_t body = Bytes().size() - head - framing;
    reply_.is_whole = reply_.is_sound = false;
    CutAt(head + chance_.Below(body), end);
  }
  void NoHead(std::vector<Step> steps, End end) {
    reply_.has_head = reply_.is_whole = reply_.is_sound = false;
    reply_.steps = std::move(steps);
    reply_.end = end;
  }
  void PutBefore(std::string bytes) { reply_.steps[0].bytes.insert(0, bytes); }

  void Spoil() {
    switch (reply_.fault) {
      case Fault::kResetBehindRequest:
        return NoHead({{chance_.Time(milliseconds(0), milliseconds(300)), ""}}, End::kReset);
      case Fault::kClosedWithoutAnswer:
        return NoHead({{chance_.Time(milliseconds(0), milliseconds(300)), ""}}, End::kClose);
      case Fault::kStallBeforeHead:
        return StallBeforeHead();
      case Fault::kGarbageHead:
        return NoHead({{Step{}.pause, "SSH-2.0-OpenSSH_9.2\r\n\r\n"}}, End::kHold);
      case Fault::kOversizedHead:
        return NoHead(
            {{Step{}.pause, "HTTP/1.1 200 OK\r\nx-long: " + std::string(70'000, 'h') + "\r\n\r\n"}},
            End::kHold);
      case Fault::kInterimAnswers:
        return PutBefore(
            "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
      case Fault::kEndlessInterimAnswers:
        for (int i = 0; i < 70; ++i) PutBefore("HTTP/1.1 102 Processing\r\n\r\n");
        return NoHead(std::move(reply_.steps), End::kHold);
      case Fault::kSwitchedProtocols:
        return NoHead({{Step{}.pause, "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n"}},
                      End::kHold);
      case Fault::kTwoLengths:
        return NoHead({{Step{}.pause,
                        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n"
                        "content-length: 3\r\n\r\n{}x"}},
                      End::kHold);
      case Fault::kClosedInHead:
      case Fault::kResetInHead: {
        CutAt(1 + chance_.Below(HeadSize() - 2),
              reply_.fault == Fault::kResetInHead ? End::kReset : End::kClose);
        return NoHead(std::move(reply_.steps), reply_.end);
      }
      default:
        return SpoilBody();
    }
  }
  // Either nothing comes, or a beginning of the head.
  void StallBeforeHead() {
    std::string some = chance_.Percent(50) ? reply_.steps[0].bytes.substr(0, 20) : "";
    NoHead({{Step{}.pause, std::move(some)}, {Beyond(timeouts_.first_byte), ""}}, End::kHold);
  }

  void SpoilBody() {
    switch (reply_.fault) {
      case Fault::kClosedInBody:
        return CutInBody(End::kClose);
      case Fault::kResetInBody:
        return CutInBody(End::kReset);
      case Fault::kStallInBody:
        CutInBody(End::kHold);
        return reply_.steps.push_back({Beyond(timeouts_.idle), ""});
      case Fault::kTrickle:
        return Trickle();
      case Fault::kDamagedChunk:
        CutInBody(End::kHold);
        CutAt(HeadSize(), End::kHold);
        return reply_.steps.push_back({Step{}.pause, "zz\r\nno chunk\r\n"});
      case Fault::kLengthTooLong:
        reply_.is_whole = reply_.is_sound = false;
        reply_.end = End::kClose;
        return;
      case Fault::kLengthTooShort:
        reply_.steps.back().bytes += "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nunasked";
        return;
      case Fault::kUntilClose:
        reply_.end = End::kClose;
        return;
      case Fault::kHalfClosed:
        reply_.end = End::kHalfClose;
        return;
      default:
        return;
    }
  }
  // Few bytes at a time, but never so slowly that it counts as silence.
  void Trickle() {
    const std::string bytes = Bytes();
    const size_t head = HeadSize();
    const Duration first = reply_.steps[0].pause;
    reply_.steps = {{first, bytes.substr(0, head / 2)},
                    {timeouts_.first_byte / 3, bytes.substr(head / 2, head - head / 2)}};
    const size_t rest = bytes.size() - head;
    const size_t size = std::max<size_t>(1, rest / 30);
    for (size_t at = head; at < bytes.size(); at += size) {
      reply_.steps.push_back(
          {chance_.Time(milliseconds(1), timeouts_.idle / 3), bytes.substr(at, size)});
    }
  }

  using Duration = SimulatedTime::Duration;
  SimulatedChance& chance_;
  SimulatedReply reply_;
  Timeouts timeouts_;
  Framing framing_ = Framing::kLength;
  ledger::reply::TokenUsage usage_;
  std::string text_;
  size_t marker_size_ = 0;
  std::string retry_after_;
  std::vector<std::string> pieces_;
};

}  // namespace kvgate::test
