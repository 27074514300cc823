#include "gateway/proxy/handler/own_request.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "gateway/ledger/ledger.h"
#include "gateway/proxy/handler/router.h"
#include "gateway/session/answer/answer_recorder.h"

namespace kvgate::proxy::handler {

using upstream::wire::SameName;

namespace {

constexpr std::chrono::milliseconds kTickInterval{200};

// Fields of the request that are its own and not its conversation's: what tells how its bytes came,
// whom its answer is for, and that it must not be repeated.
constexpr std::string_view kOwnFields[] = {"accept-encoding",
                                           "connection",
                                           "content-encoding",
                                           "content-length",
                                           "cookie",
                                           "expect",
                                           "idempotency-key",
                                           "transfer-encoding",
                                           "x-idempotency-key",
                                           "x-kvgate-explain",
                                           "x-kvgate-prompt",
                                           "x-kvgate-prompt-variables",
                                           "x-kvgate-session",
                                           "x-kvgate-session-mode",
                                           "x-kvgate-session-wait",
                                           "x-kvgate-tool-results"};
constexpr std::string_view kCredentialFields[] = {"authorization", "x-api-key", "x-goog-api-key",
                                                  "proxy-authorization"};
constexpr std::string_view kTraceFields[] = {"traceparent", "tracestate"};

template <typename Names>
bool IsOneOf(std::string_view name, const Names& names) {
  return std::any_of(std::begin(names), std::end(names),
                     [&](std::string_view other) { return SameName(name, other); });
}

}  // namespace

void KeepingSink::Clear() {
  status = 0;
  body.clear();
  Reset();
}

Task<bool> KeepingSink::Send(request::Response response, request::ReplyInfo /*info*/) {
  status = response.status;
  body = std::move(response.body);
  co_return !is_gone();
}

Task<bool> KeepingSink::Write(std::string_view piece, bool /*is_last*/) {
  if (pass && status == 200) {
    const bool goes_on = co_await pass(piece);
    if (!goes_on) SetLeft();
    co_return !is_gone();
  }
  body += piece;
  if (body.size() > session::answer::kAnswerBytesMax) SetLeft();
  co_return !is_gone();
}

void KeepingSink::OnWatch() {
  tick_.expires_after(kTickInterval);
  tick_.async_wait([weak = weak_from_this()](const boost::system::error_code& code) {
    const auto self = weak.lock();
    if (code || self == nullptr || !self->is_watched()) return;
    self->TellTick(SteadyClock::now());
    if (self->is_watched()) self->OnWatch();
  });
}

OwnRequests::OwnRequests(const RequestContext& request, bool is_background, Fields fields)
    : environment_(request.environment()),
      targets_(environment_.targets.Get()),
      caller_(is_background ? request.caller().InBackground() : request.caller()),
      is_loopback_(request.head().is_loopback),
      sink_(std::make_shared<KeepingSink>(request.sink().executor())) {
  for (const auto& field : request.head().fields) {
    if (IsOneOf(field.name, kOwnFields)) continue;
    if (is_background && IsOneOf(field.name, kCredentialFields)) continue;
    if (fields == Fields::kTrace && !IsOneOf(field.name, kTraceFields)) continue;
    fields_.emplace_back(field.name, field.value);
  }
}

std::unique_ptr<RequestContext> OwnRequests::Open(std::string_view target,
                                                  std::string_view purpose) {
  request::RequestHead head{.request_id = ledger::MakeRequestId(),
                            .method = "POST",
                            .target = target,
                            .fields = {},
                            .is_loopback = is_loopback_,
                            .received_at = SteadyClock::now(),
                            .purpose = purpose};
  for (const auto& [name, value] : fields_) head.fields.push_back({.name = name, .value = value});
  sink_->Clear();
  auto context =
      std::make_unique<RequestContext>(environment_, *sink_, std::move(head), targets_, &caller_);
  if (auto found = FindRoute("POST", target); found.match) {
    context->place() = std::move(found.match->place);
  }
  return context;
}

Task<void> OwnRequests::Serve(const Handler& handler, RequestContext& context,
                              request::ResponseSink& client) {
  Leaving leaving(*sink_);
  client.Watch(&leaving);
  co_await handler.Serve(context);
  client.Watch(nullptr);
}

}  // namespace kvgate::proxy::handler
