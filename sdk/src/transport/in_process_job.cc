#include "sdk/src/transport/in_process_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "gateway/ledger/request_record.h"
#include "gateway/proxy/handler/entry.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::sdk::transport {

using proxy::handler::BodyRule;
using proxy::request::AnswerHead;
using proxy::request::RequestContext;
using proxy::request::Response;

namespace {

constexpr std::chrono::milliseconds kTickInterval{200};

// A body that its route takes in pieces.
class MemorySource final : public proxy::request::BodySource {
 public:
  explicit MemorySource(std::string_view bytes) : left_(bytes) {}
  Task<Result<size_t>> Read(std::span<char> piece) override {
    const size_t size = std::min(piece.size(), left_.size());
    std::memcpy(piece.data(), left_.data(), size);
    left_.remove_prefix(size);
    co_return size;
  }
  Task<void> Skip() override {
    left_ = {};
    co_return;
  }

 private:
  std::string_view left_;
};

AnswerStart StartOf(int status, const proxy::request::ReplyInfo& info) {
  AnswerStart start{.status = status};
  const auto add = [&start](std::string_view name, std::string_view value) {
    if (!value.empty()) start.headers.emplace_back(name, value);
  };
  add("x-kvgate-request-id", info.request_id);
  if (!info.dialect_id_name.empty()) add(info.dialect_id_name, info.request_id);
  add("x-kvgate-left-out", info.left_out);
  add("x-kvgate-compaction", info.compaction);
  add("x-kvgate-prompt", info.prompt);
  return start;
}

}  // namespace

void ChannelSink::Stop() {
  Watch(nullptr);
  tick_.cancel();
}

Task<bool> ChannelSink::Send(Response response, proxy::request::ReplyInfo info) {
  AnswerStart start = StartOf(response.status, info);
  start.headers.emplace_back("content-type", std::move(response.content_type));
  for (auto& header : response.headers) start.headers.push_back(std::move(header));
  channel_.Begin(std::move(start));
  const bool wanted = co_await pass_(response.body);
  channel_.End();
  co_return wanted;
}

void ChannelSink::Begin(const AnswerHead& head) {
  AnswerStart start = StartOf(head.status, head.info);
  switch (head.kind) {
    case AnswerHead::Kind::kEvents:
      start.headers.emplace_back("content-type", "text/event-stream; charset=utf-8");
      break;
    case AnswerHead::Kind::kDownload:
      start.headers.emplace_back("content-type", "application/octet-stream");
      break;
    case AnswerHead::Kind::kForwarded:
      for (const auto& field : *head.fields) {
        if (upstream::wire::IsHopByHop(field.name)) continue;
        start.headers.emplace_back(field.name, field.value);
      }
      break;
  }
  channel_.Begin(std::move(start));
}

Task<bool> ChannelSink::Write(std::string_view piece, bool is_last) {
  const bool wanted = co_await pass_(piece);
  if (is_last) channel_.End();
  co_return wanted;
}

void ChannelSink::Cut() {
  channel_.Fail({.status = KVGATE_UNAVAILABLE, .message = "the answer broke off"});
}

void ChannelSink::OnWatch() {
  if (std::exchange(is_ticking_, true)) return;
  tick_.expires_after(kTickInterval);
  tick_.async_wait([this, owner = owner_.lock()](const boost::system::error_code& code) {
    is_ticking_ = false;
    if (code || !is_watched()) return;
    TellTick(SteadyClock::now());
    if (is_watched()) OnWatch();
  });
}

InProcessJob::InProcessJob(const Executor& executor, proxy::host::Host& host,
                           std::string admin_token, Request request)
    : AnswerJob(executor, std::move(request)),
      host_(host),
      admin_token_(std::move(admin_token)),
      sink_(executor, channel(), [this](std::string_view piece) { return Pass(piece); }) {}

proxy::request::RequestHead InProcessJob::HeadOf() {
  proxy::request::RequestHead head{.request_id = ledger::MakeRequestId(),
                                   .method = request().method,
                                   .target = target_,
                                   .fields = {},
                                   .is_loopback = true,
                                   .received_at = SteadyClock::now()};
  head.fields.push_back({.name = "content-type", .value = "application/json"});
  if (!admin_token_.empty()) {
    head.fields.push_back({.name = "x-kvgate-admin", .value = admin_token_});
  }
  for (const auto& [name, value] : request().headers) {
    head.fields.push_back({.name = name, .value = value});
  }
  return head;
}

Result<void> InProcessJob::TakeBody(RequestContext& context) {
  const size_t bytes_max = context.environment().options.body_bytes_max;
  if (request().body.size() > bytes_max) {
    return MakeError(
        ErrorCode::kTooLarge, "http",
        fmt::format("The request body is larger than the limit of {} bytes.", bytes_max));
  }
  KVGATE_TRY_VOID(context.body().lease().GrowTo(request().body.size()));
  context.body().bytes() = std::move(request().body);
  return {};
}

Task<void> InProcessJob::Answer() {
  sink_.SetOwner(weak_from_this());
  const struct Stopper {
    ~Stopper() { sink.Stop(); }
    ChannelSink& sink;
  } stopper{sink_};
  target_ = proxy::handler::CanonicalTarget(request().path);
  MemorySource source(request().body);
  RequestContext context(host_.environment(), sink_, HeadOf(), host_.environment().targets.Get());
  proxy::handler::Entry entry =
      proxy::handler::Enter(context, proxy::handler::FindRoute(request().method, target_));
  if (!entry.match) {
    Response refusal = std::move(entry.refusal);
    co_await context.Reply(std::move(refusal));
    co_return;
  }
  context.place() = std::move(entry.match->place);
  if (entry.match->body == BodyRule::kPieces) {
    context.body().source() = &source;
  } else if (Result<void> taken = TakeBody(context); !taken) {
    Error error = std::move(taken).error();
    co_await context.Refuse(std::move(error));
    co_return;
  }
  co_await entry.match->handler->Serve(context);
}

}  // namespace kvgate::sdk::transport
