// Reads answers of the Responses dialect.
#pragma once

#include <memory>

#include "gateway/dialect/translate/reply_writer.h"
#include "gateway/dialect/translate/upstream_reply.h"

namespace kvgate::dialect::responses {

// The writer must outlive what is made.
std::unique_ptr<translate::UpstreamReply> MakeResponsesReply(translate::ReplyWriter& writer);

}  // namespace kvgate::dialect::responses
