#include "gateway/ledger/exchange_recorder.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace kvgate::ledger {
namespace {

int64_t ToMicroseconds(std::chrono::nanoseconds time) {
  return time.count() < 0 ? -1
                          : std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

std::string_view OutcomeName(upstream::ExchangeOutcome outcome) {
  switch (outcome) {
    case upstream::ExchangeOutcome::kComplete:
      return "complete";
    case upstream::ExchangeOutcome::kClientLeft:
      return "client_left";
    case upstream::ExchangeOutcome::kUpstreamCut:
      return "upstream_cut";
    case upstream::ExchangeOutcome::kFailed:
      return "failed";
    case upstream::ExchangeOutcome::kRefused:
      break;
  }
  return "refused";
}

RequestRecord BeginRecord(const upstream::ExchangeStart& start) {
  RequestRecord record;
  record.id = start.request_id;
  record.time_us =
      std::chrono::duration_cast<std::chrono::microseconds>(start.received_at.time_since_epoch())
          .count();
  record.endpoint = start.endpoint;
  record.dialect = start.dialect;
  record.path = start.path;
  record.upstream = start.upstream;
  record.provider = start.provider;
  record.model = start.model;
  record.tenant = start.tenant;
  record.key = start.key;
  record.session = start.session;
  record.prompt_name = start.prompt_name;
  record.prompt_version = start.prompt_version;
  record.stream = start.stream;
  record.purpose = start.purpose;
  if (start.fields != nullptr) record.caller_trace = upstream::wire::TraceOfCaller(*start.fields);
  record.received_bytes = start.body.size();
  record.usage_unknown = "no answer";
  return record;
}

}  // namespace

ExchangeRecorder::ExchangeRecorder(const upstream::ExchangeStart& start, Hooks hooks)
    : record_(BeginRecord(start)), answered_endpoint_(start.endpoint), hooks_(std::move(hooks)) {}

void ExchangeRecorder::OnPrepared(std::shared_ptr<upstream::ExchangePreparation> preparation) {
  preparation_ = std::move(preparation);
}

void ExchangeRecorder::OnTranslated(dialect::form::Endpoint sent_endpoint,
                                    const std::vector<std::string>& left_out) {
  answered_endpoint_ = sent_endpoint;
  record_.edits.push_back({.rule = "translated"});
  for (const std::string& what : left_out) record_.edits.push_back({.rule = "left_out:" + what});
}

void ExchangeRecorder::OnSent(std::string_view body_received, std::string_view body_sent) {
  record_.received_bytes = body_received.size();
  record_.sent_bytes = body_sent.size();
  record_.received_sha256 = hooks_.digests.Of(record_.tenant, body_received);
  const bool same =
      body_sent.data() == body_received.data() && body_sent.size() == body_received.size();
  record_.sent_sha256 =
      same ? *record_.received_sha256 : hooks_.digests.Of(record_.tenant, body_sent);
}

void ExchangeRecorder::OnHead(const upstream::ExchangeHead& head) {
  record_.status = head.status;
  record_.upstream_request_id = head.upstream_request_id;
  is_stream_ = head.content_type.starts_with("text/event-stream");
  reader_.emplace(reply::UsageReader::Body{.endpoint = answered_endpoint_,
                                           .content_type = head.content_type,
                                           .content_encoding = head.content_encoding});
}

void ExchangeRecorder::OnBody(std::string_view piece) {
  if (is_stream_ && !piece.empty()) {
    const SteadyClock::time_point now = SteadyClock::now();
    if (first_piece_) longest_gap_ = std::max(longest_gap_, now - last_piece_);
    if (!first_piece_) first_piece_ = now;
    last_piece_ = now;
  }
  if (reader_) reader_->Feed(piece);
}

void ExchangeRecorder::TakeUsage() {
  if (!reader_) return;
  const reply::ReplyFacts& facts = reader_->facts();
  record_.reported = facts.usage;
  record_.usage = reader_->usage();
  record_.answered_by = facts.model.view();
  record_.service_tier = facts.service_tier.view();
  record_.provider_reason = facts.provider_reason.view();
  record_.usage_unknown = reader_->unreadable().empty() ? "not reported" : reader_->unreadable();
}

// The first piece and the last hold the first token and the last, about.
void ExchangeRecorder::TakePieces() {
  if (!first_piece_ || last_piece_ == *first_piece_) return;
  record_.timings.decode_us = ToMicroseconds(last_piece_ - *first_piece_);
  record_.timings.itl_us_max = ToMicroseconds(longest_gap_);
  if (!record_.usage || record_.usage->output_tokens < 2) return;
  record_.timings.tpot_us = record_.timings.decode_us / (record_.usage->output_tokens - 1);
}

void ExchangeRecorder::TakeEnd(const upstream::ExchangeEnd& end) {
  TakeUsage();
  record_.status = end.status;
  record_.outcome = OutcomeName(end.outcome);
  record_.error = end.error;
  record_.num_attempts = end.num_attempts;
  record_.answer_bytes = end.body_bytes;
  if (end.connected.count() >= 0 && end.body_read.count() >= 0) {
    record_.timings.queue_us = ToMicroseconds(end.connected - end.body_read);
  }
  record_.timings.first_byte_us = ToMicroseconds(end.first_byte);
  record_.timings.ttft_us = ToMicroseconds(end.first_body);
  record_.timings.total_us = ToMicroseconds(end.ended);
  TakePieces();
  if (record_.kept) {
    record_.usage = reply::TokenUsage{
        .cache_write_tokens = record_.kept->is_written ? record_.kept->num_tokens : 0};
    record_.usage_unknown.clear();
  }
  // Called once only, because its conclusions affect later requests.
  if (const auto preparation = std::exchange(preparation_, nullptr);
      preparation && hooks_.complete && !end.superseded) {
    hooks_.complete(record_, reader_ ? reader_->facts() : reply::ReplyFacts(), *preparation);
  }
}

std::string ExchangeRecorder::Explain(const upstream::ExchangeEnd& until_now) {
  TakeEnd(until_now);
  if (hooks_.price) hooks_.price(record_);
  return ExplanationJson(record_);
}

upstream::ExchangeTotals ExchangeRecorder::OnEnd(const upstream::ExchangeEnd& end) {
  TakeEnd(end);
  if (end.superseded) return {};
  const reply::TokenUsage usage = record_.usage.value_or(reply::TokenUsage());
  const upstream::ExchangeTotals totals{
      .input_tokens = static_cast<uint64_t>(usage.input_tokens()),
      .output_tokens = static_cast<uint64_t>(usage.output_tokens)};
  hooks_.sink(std::move(record_));
  return totals;
}

}  // namespace kvgate::ledger
