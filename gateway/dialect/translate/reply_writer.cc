#include "gateway/dialect/translate/reply_writer.h"

#include <fmt/format.h>

namespace kvgate::dialect::translate {

using form::DeltaEvent;
using form::DeltaKind;
using form::Dialect;
using form::FinishReason;

void ReplyWriter::Begin(const std::string& model) {
  if (encoder_ || ended_) return;
  if (!model.empty()) options_.model = model;
  encoder_ = make_encoder_(options_);
  // The prompt's counts are unknown at this point, so they are zero here and complete at the end.
  encoder_->OnStart({}, *out_);
}

bool ReplyWriter::Take(size_t bytes) {
  if (ended_) return false;
  Begin({});
  if (bytes > bytes_left_) {
    Fail({.status = 502, .type = "api_error", .message = "The upstream's answer is too long."});
    return false;
  }
  bytes_left_ -= bytes;
  return true;
}

void ReplyWriter::Send(DeltaEvent event) {
  namer_.Apply(event);
  encoder_->OnDelta(event, *out_);
}

void ReplyWriter::Add(DeltaKind kind, std::string_view text) {
  if (text.empty() || !Take(text.size())) return;
  EndCall();
  Send({.kind = kind, .text = std::string(text)});
}

void ReplyWriter::Seal(std::string seal) {
  if (!Take(seal.size())) return;
  EndCall();
  Send({.kind = DeltaKind::kReasoning, .seal = std::move(seal)});
}

std::string ReplyWriter::OwnCallId() const {
  return fmt::format("call_{}_{}", options_.request_id, num_calls_);
}

void ReplyWriter::BeginCall(const std::string& id, const std::string& name) {
  if (!Take(id.size() + name.size())) return;
  EndCall();
  const std::string own = OwnCallId();
  in_call_ = true;
  has_arguments_ = false;
  Send({.kind = DeltaKind::kCall,
        .text = name,
        .call_id = id.empty() ? own : id,
        .call = num_calls_++});
}

void ReplyWriter::Arguments(std::string_view text) {
  if (!in_call_ || text.empty() || !Take(text.size())) return;
  has_arguments_ = true;
  Send({.kind = DeltaKind::kArguments, .text = std::string(text), .call = num_calls_ - 1});
}

void ReplyWriter::EndCall() {
  if (!in_call_ || ended_) return;
  if (!has_arguments_) Arguments("{}");
  if (ended_) return;
  in_call_ = false;
  Send({.kind = DeltaKind::kCallEnd, .call = num_calls_ - 1});
}

void ReplyWriter::Ping() {
  if (encoder_ && !ended_ && options_.stream) *out_ += encoder_->ping();
}

form::CompletionStats ReplyWriter::Stats() const {
  form::CompletionStats stats;
  stats.num_prompt_tokens = usage_.num_prompt_tokens;
  stats.num_output_tokens = usage_.num_output_tokens;
  // The parts are limited to the whole, because an upstream may send any values.
  stats.num_cached_tokens = std::clamp<int64_t>(usage_.num_cached_tokens, 0,
                                                std::max<int64_t>(stats.num_prompt_tokens, 0));
  stats.num_written_tokens =
      std::clamp<int64_t>(usage_.num_written_tokens, 0,
                          std::max<int64_t>(stats.num_prompt_tokens - stats.num_cached_tokens, 0));
  // The Messages dialect reports as written the tokens up to the cache breakpoint that were not
  // read.
  stats.num_marked_tokens = stats.num_cached_tokens + stats.num_written_tokens;
  stats.num_reasoning_tokens = usage_.num_reasoning_tokens;
  return stats;
}

void ReplyWriter::Finish(FinishReason reason, const std::string& stop_string) {
  if (ended_) return;
  Begin({});
  EndCall();
  if (ended_) return;
  ended_ = true;
  if (num_calls_ > 0 && reason == FinishReason::kStop) reason = FinishReason::kToolCalls;
  encoder_->OnFinish({.reason = reason, .stop_string = stop_string, .stats = Stats()}, *out_);
}

void ReplyWriter::Fail(const UpstreamError& error) {
  if (ended_) return;
  // An error in the Responses dialect must follow the event that begins the response.
  if (options_.dialect == Dialect::kResponses) Begin({});
  ended_ = true;
  failure_ = error;
  if (!options_.stream) return;
  if (options_.dialect == Dialect::kResponses) {
    form::FinishEvent finish;
    finish.error = ToError(error);
    encoder_->OnFinish(finish, *out_);
    return;
  }
  const TranslatedError told = TranslateError(error, options_.dialect, options_.request_id);
  if (options_.dialect == Dialect::kMessages) {
    reply::AppendNamedSseEvent("error", told.body, *out_);
  } else {
    reply::AppendSseEvent(told.body, *out_);
  }
}

}  // namespace kvgate::dialect::translate
