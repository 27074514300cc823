// Reads answers of the Messages dialect.
#pragma once

#include <memory>

#include "gateway/dialect/translate/reply_writer.h"
#include "gateway/dialect/translate/upstream_reply.h"

namespace kvgate::dialect::messages {

// The writer must outlive what is made.
std::unique_ptr<translate::UpstreamReply> MakeMessagesReply(translate::ReplyWriter& writer);

}  // namespace kvgate::dialect::messages
