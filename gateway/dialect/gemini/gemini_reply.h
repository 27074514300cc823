// Reads answers of Gemini's dialect.
#pragma once

#include <memory>

#include "gateway/dialect/translate/reply_writer.h"
#include "gateway/dialect/translate/upstream_reply.h"

namespace kvgate::dialect::gemini {

// The writer must outlive what is made.
std::unique_ptr<translate::UpstreamReply> MakeGeminiReply(translate::ReplyWriter& writer);

}  // namespace kvgate::dialect::gemini
