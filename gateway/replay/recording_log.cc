#include "gateway/replay/recording_log.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/ledger/reply/usage_reader.h"
#include "gateway/upstream/body_scan.h"

namespace kvgate::replay {
namespace {

using std::chrono::microseconds;

constexpr std::array<std::string_view, 8> kKeptHeaders = {
    "anthropic-beta", "anthropic-version", "session_id",     "x-grok-conv-id",
    "x-kvgate-mode",  "x-kvgate-session",  "x-kvgate-rules", "x-kvgate-intent"};
constexpr size_t kDecodedBytesMax = size_t{64} << 20;

int64_t ToMicroseconds(std::chrono::nanoseconds time) {
  return std::max<int64_t>(0, std::chrono::duration_cast<microseconds>(time).count());
}

TraceRequest BeginRequest(const upstream::ExchangeStart& start) {
  TraceRequest request;
  request.time_us =
      std::chrono::duration_cast<microseconds>(start.received_at.time_since_epoch()).count();
  request.tenant = start.tenant;
  request.endpoint = start.endpoint;
  request.upstream = start.upstream;
  request.provider = start.provider;
  request.is_oauth = start.is_subscription;
  if (start.fields == nullptr) return request;
  for (const upstream::wire::HeaderField& field : *start.fields) {
    if (!IsKeptHeader(field.name)) continue;
    std::string name(field.name);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    request.headers.push_back({.name = std::move(name), .value = std::string(field.value)});
  }
  return request;
}

class Recorder final : public upstream::ExchangeObserver {
 public:
  Recorder(std::unique_ptr<upstream::ExchangeObserver> inner, const upstream::ExchangeStart& start,
           TraceWriter& trace)
      : inner_(std::move(inner)),
        trace_(trace),
        encoding_(start.content_encoding),
        request_(BeginRequest(start)),
        answered_endpoint_(start.endpoint) {}

  void OnPrepared(std::shared_ptr<upstream::ExchangePreparation> preparation) override {
    inner_->OnPrepared(std::move(preparation));
  }
  void OnTranslated(dialect::form::Endpoint sent_endpoint,
                    const std::vector<std::string>& left_out) override {
    answered_endpoint_ = sent_endpoint;
    inner_->OnTranslated(sent_endpoint, left_out);
  }
  void OnSent(std::string_view body_received, std::string_view body_sent) override {
    request_.body = body_received;
    is_sent_ = true;
    inner_->OnSent(body_received, body_sent);
  }
  void OnHead(const upstream::ExchangeHead& head) override {
    request_.status = head.status;
    reader_.emplace(ledger::reply::UsageReader::Body{.endpoint = answered_endpoint_,
                                                     .content_type = head.content_type,
                                                     .content_encoding = head.content_encoding});
    inner_->OnHead(head);
  }
  void OnBody(std::string_view piece) override {
    if (reader_) reader_->Feed(piece);
    inner_->OnBody(piece);
  }
  std::string Explain(const upstream::ExchangeEnd& until_now) override {
    return inner_->Explain(until_now);
  }
  upstream::ExchangeTotals OnEnd(const upstream::ExchangeEnd& end) override {
    if (is_sent_ && !end.superseded) Write(end);
    return inner_->OnEnd(end);
  }

 private:
  void Write(const upstream::ExchangeEnd& end) {
    if (!encoding_.empty()) {
      std::optional<std::string> plain =
          upstream::DecodeBody(encoding_, request_.body, kDecodedBytesMax);
      if (!plain) return;
      request_.body = std::move(*plain);
    }
    if (reader_) request_.usage = reader_->usage();
    request_.ttft_us = ToMicroseconds(end.first_byte);
    request_.total_us = ToMicroseconds(end.ended);
    trace_.Append(request_);
  }

  const std::unique_ptr<upstream::ExchangeObserver> inner_;
  TraceWriter& trace_;
  const std::string encoding_;
  TraceRequest request_;
  // The upstream's endpoint, whose dialect the answer has; the trace names the caller's.
  dialect::form::Endpoint answered_endpoint_;
  bool is_sent_ = false;
  std::optional<ledger::reply::UsageReader> reader_;
};

}  // namespace

bool IsKeptHeader(std::string_view name) {
  return std::any_of(kKeptHeaders.begin(), kKeptHeaders.end(),
                     [&](std::string_view kept) { return upstream::wire::SameName(kept, name); });
}

std::unique_ptr<upstream::ExchangeObserver> RecordingLog::Begin(
    const upstream::ExchangeStart& start) {
  return std::make_unique<Recorder>(inner_.Begin(start), start, trace_);
}

}  // namespace kvgate::replay
