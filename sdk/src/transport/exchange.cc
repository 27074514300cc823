#include "sdk/src/transport/exchange.h"

#include <charconv>
#include <utility>

#include "sdk/src/transport/answer_job.h"

namespace kvgate::sdk::transport {

namespace {

// What was cancelled before does not begin.
std::shared_ptr<Channel> Start(Transport& transport, Request request,
                               const std::shared_ptr<Cancel>& cancel) {
  if (cancel == nullptr || !cancel->is_triggered()) return transport.Start(std::move(request));
  auto channel = std::make_shared<Channel>();
  channel->Fail(CancelledFailure());
  return channel;
}

}  // namespace

Exchange::Exchange(Transport& transport, Request request, const std::shared_ptr<Cancel>& cancel)
    : channel_(Start(transport, std::move(request), cancel)),
      watch_(Cancel::Add(cancel, [weak = std::weak_ptr(channel_)] {
        if (const auto channel = weak.lock()) channel->Cancel(CancelledFailure());
      })) {}

Exchange::~Exchange() {
  channel_->OnReady(nullptr);
  channel_->Cancel(CancelledFailure());
}

bool Exchange::ReadAll(std::string& body) {
  while (true) {
    switch (channel_->Wait()) {
      case Channel::State::kBytes:
        channel_->Take(body);
        break;
      case Channel::State::kEnd:
        if (channel_->start().status >= 200 && channel_->start().status < 300) return true;
        RefuseBy(body);
        return false;
      case Channel::State::kFailed:
        failure_ = channel_->failure();
        return false;
      case Channel::State::kNothing:
        break;
    }
  }
}

void Exchange::RefuseBy(std::string_view body) {
  const AnswerStart& start = channel_->start();
  failure_ = ToFailure(start.status, body);
  if (const std::string* id = start.Header("x-kvgate-request-id")) failure_.request_id = *id;
  if (const std::string* after = start.Header("retry-after")) {
    uint32_t seconds = 0;
    std::from_chars(after->data(), after->data() + after->size(), seconds);
    failure_.retry_after_ms = seconds * 1000;
  }
}

}  // namespace kvgate::sdk::transport
