// The error of a reply that the caller cannot use: what the server refuses, or what it should not
// have said. It names no key and no value.
#pragma once

#include <fmt/format.h>

#include "base/result.h"
#include "store/remote/resp_protocol.h"

namespace kvgate::store::shared {

inline Error UnexpectedReply(const remote::RespReply& reply) {
  return MakeError(ErrorCode::kUnavailable, "store.shared",
                   reply.is_error() ? fmt::format("the shared store refuses: {}", reply.text)
                                    : "the shared store answers what nobody asked");
}

}  // namespace kvgate::store::shared
