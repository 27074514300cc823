// The encoders of all dialects that clients speak.
#pragma once

#include <memory>

#include "gateway/dialect/reply/reply_encoder.h"

namespace kvgate::dialect {

// Makes the encoder of the dialect that the options name.
std::unique_ptr<reply::ReplyEncoder> MakeReplyEncoder(reply::ReplyOptions options);

}  // namespace kvgate::dialect
