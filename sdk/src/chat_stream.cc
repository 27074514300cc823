#include "sdk/src/chat_stream.h"

#include <utility>

namespace kvgate::sdk {

using transport::AnswerStart;
using transport::Channel;
using transport::Failure;

namespace {

bool IsEvents(const AnswerStart& start) {
  const std::string* type = start.Header("content-type");
  return start.status == 200 && type != nullptr && type->starts_with("text/event-stream");
}

}  // namespace

std::string StreamedBody(std::string_view request) {
  constexpr std::string_view kSpace = " \t\r\n";
  constexpr std::string_view kAsked = R"("stream":true,"stream_options":{"include_usage":true}})";
  const size_t begin = request.find_first_not_of(kSpace);
  const size_t end = request.find_last_not_of(kSpace);
  if (begin == std::string_view::npos || request[begin] != '{' || request[end] != '}') {
    return std::string(request);
  }
  const size_t last = request.find_last_not_of(kSpace, end - 1);
  std::string body;
  body.reserve(end + 1 + kAsked.size());
  body += request.substr(begin, end - begin);
  if (last != begin) body += ',';
  body += kAsked;  // of names that stand twice, the last one counts
  return body;
}

ChatStream::~ChatStream() { exchange_.channel().OnReady(nullptr); }

kvgate_status ChatStream::Next(bool may_wait) {
  while (!HasNews()) {
    if (!may_wait) return KVGATE_AGAIN;
    exchange_.channel().Wait();
  }
  event_ = reader_.Next();
  if (event_) return KVGATE_OK;
  if (pending_) Fail(*std::exchange(pending_, std::nullopt));
  return *outcome_;
}

bool ChatStream::HasNews() {
  while (!reader_.has_event() && !outcome_ && !pending_) {
    const Channel::State state = exchange_.channel().Poll();
    if (state == Channel::State::kNothing) return false;
    has_start_ = true;
    Read(state);
  }
  return true;
}

void ChatStream::Read(Channel::State state) {
  Channel& channel = exchange_.channel();
  if (state == Channel::State::kFailed) {
    pending_ = channel.failure();
  } else if (state == Channel::State::kEnd) {
    End();
  } else if (!IsEvents(channel.start())) {
    channel.Take(body_);
  } else {
    std::string bytes;
    channel.Take(bytes);
    pending_ = reader_.Push(bytes);
  }
}

void ChatStream::End() {
  const AnswerStart& start = exchange_.channel().start();
  if (start.status != 200) {
    exchange_.RefuseBy(body_);
    pending_ = exchange_.failure();
    return;
  }
  pending_ = IsEvents(start) ? reader_.End() : reader_.ReadWhole(body_);
  if (!pending_) outcome_ = KVGATE_END;
}

void ChatStream::Fail(Failure failure) {
  if (failure.request_id.empty() && has_start_) {
    const std::string* id = exchange_.channel().start().Header("x-kvgate-request-id");
    if (id != nullptr) failure.request_id = *id;
  }
  outcome_ = failure.status;
  exchange_.Fail(std::move(failure));
}

void ChatStream::OnReady(std::function<void()> ready) {
  // What is told may end this stream.
  const std::shared_ptr<Channel> channel = exchange_.shared_channel();
  if (ready == nullptr) {
    channel->OnReady(nullptr);
  } else if (HasNews()) {
    ready();
  } else {
    channel->OnReady([this, ready = std::move(ready)] { OnReady(ready); });
  }
}

}  // namespace kvgate::sdk
