// UpstreamReply reads one dialect's answers and passes them to a ReplyWriter. It ignores unknown
// events and fields, because providers add new ones. Not thread-safe.
#pragma once

#include <memory>

#include "gateway/dialect/translate/raw_json.h"
#include "gateway/dialect/translate/reply_writer.h"

namespace kvgate::dialect::translate {

class UpstreamReply {
 public:
  explicit UpstreamReply(ReplyWriter& writer) : writer_(writer) {}
  virtual ~UpstreamReply() = default;
  UpstreamReply(const UpstreamReply&) = delete;
  UpstreamReply& operator=(const UpstreamReply&) = delete;

  // Takes the data of one event.
  virtual void OnEvent(const RawObject& event) = 0;
  // Takes a whole answer.
  virtual void OnBody(const RawObject& body) = 0;
  // Call it when the stream has ended, with or without Chat Completions' [DONE].
  virtual void OnStreamEnd() = 0;

 protected:
  ReplyWriter& writer_;
};

}  // namespace kvgate::dialect::translate
