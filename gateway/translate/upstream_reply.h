// UpstreamReply: reads one dialect's answers and says them to a ReplyWriter. What it does not know
// it passes over: providers add events and fields. Not thread-safe.
#pragma once

#include <memory>

#include "gateway/translate/raw_json.h"
#include "gateway/translate/reply_writer.h"

namespace kvgate::translate {

class UpstreamReply {
 public:
  explicit UpstreamReply(ReplyWriter& writer) : writer_(writer) {}
  virtual ~UpstreamReply() = default;
  UpstreamReply(const UpstreamReply&) = delete;
  UpstreamReply& operator=(const UpstreamReply&) = delete;

  // The data of one event.
  virtual void OnEvent(const RawObject& event) = 0;
  // A whole answer.
  virtual void OnBody(const RawObject& body) = 0;
  // The stream has ended as one does, with its mark (Chat Completions: [DONE]) or without.
  virtual void OnStreamEnd() = 0;

 protected:
  ReplyWriter& writer_;
};

// Chat Completions, Responses and Messages.
std::unique_ptr<UpstreamReply> MakeChatReply(ReplyWriter& writer);
std::unique_ptr<UpstreamReply> MakeResponsesReply(ReplyWriter& writer);
std::unique_ptr<UpstreamReply> MakeMessagesReply(ReplyWriter& writer);

}  // namespace kvgate::translate
