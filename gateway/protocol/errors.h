// The one table from our errors to what an OpenAI client sees.
#pragma once

#include <string>

#include <kvgate/result.h>

namespace kvgate::protocol {

int HttpStatus(ErrorCode code);

// {"error":{"message","type","param","code"}}. Internal detail (kInternal, kDataLoss, kIo) is not
// sent: the caller logs it under the request id.
std::string EncodeError(const Error& error);

}  // namespace kvgate::protocol
