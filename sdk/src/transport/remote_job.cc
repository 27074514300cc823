#include "sdk/src/transport/remote_job.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/clock.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::sdk::transport {
namespace {

using std::chrono::milliseconds;
using upstream::wire::FindHeader;

constexpr milliseconds kTickInterval{200};
// The first pause before a retry, which doubles with each; a server that says more than the longest
// is not waited for.
constexpr milliseconds kPauseMin{250};
constexpr milliseconds kPauseMax{10'000};

}  // namespace

RemoteJob::RemoteJob(const Executor& executor, upstream::Upstream& server, std::string base_path,
                     int retries, Request request)
    : AnswerJob(executor, std::move(request)),
      server_(server),
      base_path_(std::move(base_path)),
      retries_left_(retries),
      pause_(kPauseMin),
      tick_(executor) {}

void RemoteJob::GiveUp() {
  if (exchange_) exchange_->Abort();
}

std::string RemoteJob::HeadOf() {
  upstream::wire::HeaderFields fields;
  if (!request().body.empty()) {
    fields.push_back({.name = "Content-Type", .value = "application/json"});
  }
  // What is added is not filtered, as the fields of a forwarded request are.
  upstream::wire::HeaderFields added;
  for (const auto& [name, value] : request().headers) {
    added.push_back({.name = name, .value = value});
  }
  return upstream::wire::RequestHead({.method = request().method,
                                      .target = base_path_ + request().path,
                                      .host = server_.host(),
                                      .fields = fields,
                                      .body_bytes = request().body.size(),
                                      .added = added});
}

Task<void> RemoteJob::Answer() {
  const std::string head = HeadOf();
  while (!is_given_up()) {
    const bool again = co_await Try(head);
    exchange_.reset();
    if (!again) break;
    co_await Sleep(pause_);
    pause_ = std::min(2 * pause_, kPauseMax);
  }
  tick_.cancel();
}

Task<bool> RemoteJob::Try(const std::string& head) {
  exchange_ = std::make_unique<upstream::Exchange>(server_, executor());
  ArmTick();
  const Result<void> started = co_await exchange_->Start(
      {.head = head, .body = request().body, .head_only = request().method == "HEAD"});
  if (is_given_up()) co_return false;
  if (!started) {
    if (MayRetry(started.error()) && retries_left_-- > 0) co_return true;
    channel().Fail(ToFailure(started.error()));
    co_return false;
  }
  if (IsRefusedForNow() && retries_left_-- > 0) co_return true;
  co_await Receive();
  co_return false;
}

// A request that was sent may have been begun with.
bool RemoteJob::MayRetry(const Error& error) const {
  return error.code == ErrorCode::kUnavailable && !exchange_->times().sent;
}

bool RemoteJob::IsRefusedForNow() {
  const int status = exchange_->status();
  if (status != 429 && status != 503 && status != 529) return false;
  const std::string_view after = FindHeader(exchange_->fields(), "retry-after");
  int seconds = 0;
  std::from_chars(after.data(), after.data() + after.size(), seconds);
  if (milliseconds(std::chrono::seconds(seconds)) > kPauseMax) return false;
  pause_ = std::max<milliseconds>(pause_, std::chrono::seconds(seconds));
  return true;
}

Task<void> RemoteJob::Receive() {
  AnswerStart start{.status = exchange_->status()};
  for (const auto& field : exchange_->fields()) {
    start.headers.emplace_back(field.name, field.value);
  }
  channel().Begin(std::move(start));
  while (!is_given_up()) {
    Result<std::string> piece = co_await exchange_->Read();
    if (is_given_up()) co_return;
    if (!piece) {
      channel().Fail({.status = KVGATE_UNAVAILABLE,
                      .message = "the answer broke off: " + piece.error().detail});
      co_return;
    }
    if (piece->empty()) {
      channel().End();
      co_return;
    }
    co_await Pass(*piece);
  }
}

void RemoteJob::ArmTick() {
  tick_.expires_after(kTickInterval);
  tick_.async_wait([weak = weak_from_this()](const boost::system::error_code& code) {
    const auto self = std::static_pointer_cast<RemoteJob>(weak.lock());
    if (code || self == nullptr || self->exchange_ == nullptr) return;
    self->exchange_->Tick(SteadyClock::now());
    self->ArmTick();
  });
}

}  // namespace kvgate::sdk::transport
