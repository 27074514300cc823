// Reads answers of the Chat Completions dialect.
#pragma once

#include <memory>

#include "gateway/dialect/translate/reply_writer.h"
#include "gateway/dialect/translate/upstream_reply.h"

namespace kvgate::dialect::chat {

// The writer must outlive what is made.
std::unique_ptr<translate::UpstreamReply> MakeChatReply(translate::ReplyWriter& writer);

}  // namespace kvgate::dialect::chat
