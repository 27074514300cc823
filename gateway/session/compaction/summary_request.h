// SummaryRequest: the request by which a conversation is summarised for a compaction. Where it can,
// it is the caller's own request with one more message of the user's, so that all but that is read
// from the cache. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/session/compaction/asked.h"
#include "gateway/session/log/logged_turn.h"

namespace kvgate::session::compaction {

struct SummaryRequest {
  Dialect dialect = Dialect::kResponses;
  std::string_view body;  // as its caller wrote it, its compactions opened
  std::string_view instructions = {};
  int64_t tokens_max = 0;  // that the summary may have where the body sets no limit of its own
  // The conversation is told in one message, without its tools: for a model that has called one
  // instead of writing.
  bool only_part = false;
};
// Returns the body of the request. Fails with kInvalidArgument if there is nothing to summarise.
Result<std::string> WriteRequest(const SummaryRequest& args);

// Reads the answer's summary. Fails with kUnavailable if it is none.
Result<log::Summary> ReadSummary(Dialect dialect, std::string_view answer);

}  // namespace kvgate::session::compaction
