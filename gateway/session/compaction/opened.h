// Opened: a request's body with the summaries of its compactions in the place of their items, as
// any model can read them. What a compaction stands for is left out, as providers do. The same
// items give the same bytes, so that the prompt only grows at its end. Pure; any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/session/compaction/sealed_summary.h"
#include "gateway/session/transcript/message.h"

namespace kvgate::session::compaction {

using transcript::Dialect;

struct OpenArgs {
  Dialect dialect = Dialect::kResponses;
  std::string_view body;
  // The request goes to who makes such items itself and reads its own: they stay as they are.
  bool is_native = false;
  std::function<Result<SealedSummary>(std::string_view sealed)> open;
};

// Returns the body with the newest compaction opened; nullopt if it stays as it is. Fails with
// kInvalidArgument, which names the item, for one that cannot be read here, and, with the
// provider's name for it in front, for a block of Messages that stands in the wrong place or was
// changed.
Result<std::optional<std::string>> OpenBody(const OpenArgs& args);

// The summary with the newest message of the body's user behind it, word for word, because that is
// what is to be answered; as it is if somebody else spoke last.
std::string WithNewest(Dialect dialect, std::string_view body, std::string_view summary);
// The body with the summary in the place of all its messages, as OpenBody leaves it behind them.
std::string InPlace(Dialect dialect, std::string_view body, std::string_view summary);

}  // namespace kvgate::session::compaction
