#include "gateway/service/local_record.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "gateway/dialect/form/errors.h"
#include "gateway/ledger/ledger.h"

namespace kvgate::service {
namespace {

using ledger::reply::UsageField;

constexpr int kClientLeft = 499;

int64_t ToMicroseconds(double seconds) { return std::llround(seconds * 1e6); }

std::pair<dialect::form::Endpoint, std::string_view> EndpointOf(dialect::form::Dialect dialect) {
  switch (dialect) {
    case dialect::form::Dialect::kChatCompletions:
      return {dialect::form::Endpoint::kChatCompletions, "/v1/chat/completions"};
    case dialect::form::Dialect::kCompletions:
      return {dialect::form::Endpoint::kCompletions, "/v1/completions"};
    case dialect::form::Dialect::kMessages:
      return {dialect::form::Endpoint::kMessages, "/v1/messages"};
    case dialect::form::Dialect::kResponses:
      return {dialect::form::Endpoint::kResponses, "/v1/responses"};
    case dialect::form::Dialect::kGemini:
      return {dialect::form::Endpoint::kGenerateContent, "/v1beta/models"};
  }
  return {dialect::form::Endpoint::kOther, ""};
}

// An example: "restore_late: 38560 stored tokens were computed anew (load 141 ms so far, computing
// 2790 ms)".
std::string ReasonOf(const dialect::form::GivenUpLoad& load) {
  if (load.reason.empty()) return {};
  const bool is_begun = load.reason != "not_worth_it";
  return fmt::format(
      "restore_{}: {} stored tokens were computed anew (load {:.0f} ms {}, computing {:.0f} ms)",
      load.reason, load.num_tokens, load.load_seconds * 1e3, is_begun ? "so far" : "expected",
      load.compute_seconds * 1e3);
}

void TakeTimes(const dialect::form::CompletionStats& stats, ledger::RequestTimings& timings) {
  timings.queue_us = ToMicroseconds(stats.queue_seconds);
  timings.ttft_us = ToMicroseconds(stats.ttft_seconds);
  timings.prefill_us = ToMicroseconds(stats.prefill_seconds);
  if (stats.num_output_tokens < 2 || stats.total_seconds <= 0) return;
  timings.decode_us = ToMicroseconds(std::max(0.0, stats.total_seconds - stats.ttft_seconds));
  timings.itl_us_max = ToMicroseconds(stats.itl_seconds_max);
  // The engine ends a request a little after its last token. No gap between tokens was longer than
  // the longest one, so that all of them together took no more than this.
  const int64_t num_gaps = stats.num_output_tokens - 1;
  if (timings.itl_us_max > 0) {
    timings.decode_us = std::min(timings.decode_us, timings.itl_us_max * num_gaps);
  }
  timings.tpot_us = timings.decode_us / num_gaps;
}

}  // namespace

LocalRecord::LocalRecord(const Args& args) : ledger_(args.ledger) {
  const auto [endpoint, path] = args.is_embedding ? std::pair(dialect::form::Endpoint::kEmbeddings,
                                                              std::string_view("/v1/embeddings"))
                                                  : EndpointOf(args.dialect);
  record_.id = args.request_id;
  record_.time_us = WallClock::NowUs();
  record_.endpoint = endpoint;
  if (endpoint == dialect::form::Endpoint::kMessages) {
    record_.dialect = dialect::form::Api::kAnthropic;
  }
  if (endpoint == dialect::form::Endpoint::kGenerateContent) {
    record_.dialect = dialect::form::Api::kGemini;
  }
  record_.path = path;
  record_.upstream = prompt::kLocalProvider;
  record_.provider = prompt::kLocalProvider;
  record_.tenant = args.tenant;
  record_.key = args.key;
  record_.session = args.session;
  if (args.prompt) {
    record_.prompt_name = args.prompt->name;
    record_.prompt_version = args.prompt->version;
  }
  record_.purpose = args.purpose;
  record_.caller_trace = args.caller_trace;
  record_.usage_unknown = "no answer";
}

LocalRecord::~LocalRecord() {
  if (ledger_ == nullptr) return;
  if (!finished_) {
    record_.outcome = "client_left";
    record_.status = kClientLeft;
  }
  End();
}

void LocalRecord::OnRequest(const dialect::form::CompletionRequest& request) {
  record_.model = request.model;
  record_.asked_model.clear();
  record_.stream = request.stream;
  record_.edits.clear();
  for (const std::string& what : request.left_out) {
    record_.edits.push_back({.rule = "left_out:" + what});
  }
}

void LocalRecord::OnModel(std::string_view name) {
  record_.asked_model = record_.model == name ? "" : record_.model;
  record_.model = name;
}

void LocalRecord::OnNamed(std::string_view asked, std::string_view model) {
  record_.model = model;
  record_.asked_model = asked == model ? "" : asked;
}

void LocalRecord::OnVectors(const VectorStats& stats) {
  finished_ = true;
  record_.num_attempts = 1;
  record_.status = 200;
  record_.reported.Set(UsageField::kPromptTokens, static_cast<int64_t>(stats.num_tokens));
  record_.reported.Set(UsageField::kTotalTokens, static_cast<int64_t>(stats.num_tokens));
  record_.usage = Normalize(record_.reported, record_.endpoint);
  record_.timings.queue_us = ToMicroseconds(stats.queue_seconds);
  record_.timings.prefill_us = ToMicroseconds(stats.compute_seconds);
  record_.tiers = ledger::TierTokens{.computed = static_cast<int64_t>(stats.num_tokens)};
  End();
}

void LocalRecord::OnFailed(const Error& error) {
  finished_ = true;
  record_.num_attempts = 1;
  record_.status = dialect::form::HttpStatus(error);
  record_.outcome = "failed";
  record_.error = error.detail;
  End();
}

void LocalRecord::OnBody(std::string_view body) {
  record_.received_bytes = body.size();
  if (ledger_ == nullptr) return;
  record_.received_sha256 = ledger_->digests().Of(record_.tenant, body);
}

void LocalRecord::OnPrepared(Prompts& prompts,
                             std::shared_ptr<upstream::ExchangePreparation> preparation) {
  prompts_ = &prompts;
  preparation_ = std::move(preparation);
}

void LocalRecord::OnFinish(const dialect::form::FinishEvent& finish, bool begun) {
  const dialect::form::CompletionStats& stats = finish.stats;
  finished_ = true;
  record_.num_attempts = 1;
  record_.status = 200;
  if (finish.error) {
    if (!begun) record_.status = dialect::form::HttpStatus(*finish.error);
    record_.outcome = begun ? "upstream_cut" : "failed";
    record_.error = finish.error->detail;
  } else {
    if (record_.endpoint == dialect::form::Endpoint::kMessages) {
      record_.reported.Set(UsageField::kInputTokens,
                           stats.num_prompt_tokens - stats.num_cached_tokens);
      record_.reported.Set(UsageField::kOutputTokens, stats.num_output_tokens);
      record_.reported.Set(UsageField::kCacheRead, stats.num_cached_tokens);
    } else {
      record_.reported.Set(UsageField::kPromptTokens, stats.num_prompt_tokens);
      record_.reported.Set(UsageField::kCompletionTokens, stats.num_output_tokens);
      record_.reported.Set(UsageField::kTotalTokens,
                           stats.num_prompt_tokens + stats.num_output_tokens);
      record_.reported.Set(UsageField::kPromptCached, stats.num_cached_tokens);
    }
    record_.usage = Normalize(record_.reported, record_.endpoint);
    TakeTimes(stats, record_.timings);
    record_.tiers =
        ledger::TierTokens{.device = stats.num_device_tokens,
                           .host = stats.num_host_tokens,
                           .disk = stats.num_disk_tokens,
                           .shared = stats.num_shared_tokens,
                           .computed = stats.num_prompt_tokens - stats.num_cached_tokens};
    record_.provider_reason = ReasonOf(stats.given_up);
  }
  if (preparation_) {
    prompts_->Complete(record_, ledger::reply::ReplyFacts(), *preparation_, stats.segments);
  }
}

std::string LocalRecord::BreakJson() const {
  return record_.prefix_break ? ledger::BreakJson(*record_.prefix_break) : "";
}

std::vector<dialect::form::PromptSegment> LocalRecord::Segments() const {
  std::vector<dialect::form::PromptSegment> segments;
  if (!preparation_) return segments;
  for (const prompt::diagnose::SourceRun& run : Prompts::RunsOf(*preparation_)) {
    segments.push_back(
        {.source = prompt::parse::SourceName(run.source), .num_tokens = run.num_tokens});
  }
  return segments;
}

void LocalRecord::OnRefused(const Error& error) {
  record_.outcome = "refused";
  record_.status = dialect::form::HttpStatus(error);
  record_.error = std::string(ErrorCodeName(error.code));
  End();
}

void LocalRecord::End() {
  ledger::Ledger* const ledger = std::exchange(ledger_, nullptr);
  if (ledger == nullptr) return;
  record_.timings.total_us = WallClock::NowUs() - record_.time_us;
  ledger->Add(std::move(record_));
}

}  // namespace kvgate::service
