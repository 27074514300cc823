#include "gateway/proxy/provider/upstream_exchange.h"

#include <functional>
#include <utility>

#include "gateway/service/prompts.h"
#include "gateway/upstream/wire/content_decoder.h"

namespace kvgate::proxy::provider {

using request::Task;
using upstream::Exchange;
using upstream::wire::HeaderField;
using upstream::wire::SameName;

void UpstreamExchange::Open(upstream::Upstream* upstream, std::string_view model) {
  upstream_ = upstream;
  upstream::ExchangeLog* const log = request_.environment().options.exchange_log;
  if (log == nullptr) return;
  const request::RequestHead& head = request_.head();
  const request::Caller& caller = request_.caller();
  const auto since_head =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - head.received_at);
  const std::chrono::microseconds now(WallClock::NowUs());
  const auto& prompt = request_.notes().prompt;
  const session::log::TurnPrompt* const named = prompt ? &*prompt : nullptr;
  auto observer = log->Begin(
      {.request_id = head.request_id,
       .received_at = std::chrono::system_clock::time_point(now - since_head),
       .upstream = upstream == nullptr ? "" : std::string_view(upstream->name()),
       .provider = upstream == nullptr ? "" : std::string_view(upstream->provider()),
       .dialect = request_.kind().dialect,
       .endpoint = request_.kind().endpoint,
       .method = head.method,
       .path = request::PathOf(head.target),
       .model = model,
       .tenant = caller.tenant(),
       .key = caller.key() == nullptr ? "" : std::string_view(caller.key()->name()),
       .session = service::SessionOf(head.fields),
       .prompt_name = named == nullptr ? "" : std::string_view(named->name),
       .prompt_version = named == nullptr ? "" : std::string_view(named->version),
       .body = request_.body().bytes(),
       .content_encoding = request_.Header("content-encoding"),
       .stream = request_.scan().stream,
       .fields = &head.fields,
       .is_subscription = service::IsSubscription(caller.SentCredential(upstream), head.fields),
       .purpose = head.purpose});
  account_ = std::make_shared<ExchangeAccount>(std::move(observer), caller.shared_key(),
                                               upstream == nullptr ? nullptr : upstream->meter(),
                                               request_.scan().stream);
}

void UpstreamExchange::Reopen(std::string_view model) {
  const auto body_read = end_.body_read;
  end_.superseded = true;
  Close();
  exchange_.reset();
  end_ = {};
  end_.body_read = body_read;
  account_.reset();
  starts_ = true;
  hash_is_due_ = false;
  Open(upstream_, model);
}

void UpstreamExchange::Connect() {
  exchange_ = std::make_unique<Exchange>(*upstream_, request_.sink().executor());
}

Task<Result<void>> UpstreamExchange::Send(OutgoingRequest& outgoing) {
  if (account_) outgoing.Share();
  head_ = outgoing.Head();
  exchange_->OnSent([this, &outgoing] {
    if (!account_) return;
    const std::shared_ptr<const std::string>& shared = outgoing.shared();
    hash_is_due_ = starts_ && !shared && outgoing.received().size() >= work::kLargeBodyBytes;
    if (hash_is_due_) return;
    if (shared) {
      account_->HashOnWorker(request_.environment().pools.request, request_.sink().executor(),
                             shared, outgoing.shared_sent());
    } else {
      account_->observer().OnSent(outgoing.received(), outgoing.body());
    }
  });
  const Result<void> started = co_await exchange_->Start(
      {.head = head_, .body = outgoing.body(), .head_only = request_.head().is_head});
  starts_ = false;
  if (hash_is_due_) {
    std::function<void()> hash = [this, &outgoing] {
      account_->observer().OnSent(outgoing.received(), outgoing.body());
    };
    co_await request_.work().RunSized(outgoing.received().size(), std::move(hash));
  }
  co_return started;
}

void UpstreamExchange::TakeHead() {
  end_.status = exchange_->status();
  fields_ = exchange_->fields();
  const upstream::SecretMask mask = Mask();
  for (HeaderField& field : fields_) {
    if (mask.IsIn(field.value)) field.value = own_values_.emplace_back(mask.Whole(field.value));
  }
  gaps_ = nullptr;
  last_piece_.reset();
  if (end_.status == 200 && Field("content-type").starts_with("text/event-stream")) {
    metrics::AnswerMetrics& answers = request_.environment().service.metrics().answers;
    gaps_ = &answers.Of(upstream_->name()).itl_seconds;
  }
  if (!account_) return;
  const std::string_view own = Field("x-request-id");
  account_->observer().OnHead({.status = exchange_->status(),
                               .content_type = Field("content-type"),
                               .content_encoding = Field("content-encoding"),
                               .upstream_request_id = own.empty() ? Field("request-id") : own});
}

void UpstreamExchange::ObserveGap() {
  const Clock::time_point now = Clock::now();
  if (last_piece_) gaps_->Observe(std::chrono::duration<double>(now - *last_piece_).count());
  last_piece_ = now;
}

void UpstreamExchange::DropField(std::string_view name) {
  std::erase_if(fields_, [&](const HeaderField& field) { return SameName(field.name, name); });
}

void UpstreamExchange::ReplaceField(std::string_view name, std::string value) {
  DropField(name);
  fields_.push_back({.name = name, .value = own_values_.emplace_back(std::move(value))});
}

Task<std::string> UpstreamExchange::ReadAll(size_t bytes_max) {
  std::string body = exchange_->TakeReady();
  while (!exchange_->finished() && body.size() <= bytes_max) {
    Result<std::string> next = co_await exchange_->Read();
    if (!next) break;
    body += *next;
  }
  co_return body;
}

void UpstreamExchange::TakeTimes() {
  const Clock::time_point received_at = request_.head().received_at;
  if (exchange_) {
    const Exchange::Times& times = exchange_->times();
    const auto since = [&](const std::optional<Clock::time_point>& time) {
      return time ? *time - received_at : std::chrono::nanoseconds(-1);
    };
    end_.num_attempts = exchange_->num_attempts();
    end_.connected = since(times.connected);
    end_.sent = since(times.sent);
    end_.first_byte = since(times.first_byte);
  }
  end_.ended = Clock::now() - received_at;
}

std::string UpstreamExchange::Explain() {
  TakeTimes();
  return account_->observer().Explain(end_);
}

void UpstreamExchange::Close() {
  if (!account_) return;
  TakeTimes();
  account_->End(end_);
}

}  // namespace kvgate::proxy::provider
