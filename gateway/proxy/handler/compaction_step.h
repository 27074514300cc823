// CompactionStep: what a request's life has to do with compactions. It stands in front of all else:
// items that this gateway made become text that any model reads; and where a compaction or an edit
// of the prompt is asked for whose target makes none itself, it is made here, a compaction by a
// summary that is an ordinary request to that target.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/handler/own_request.h"
#include "gateway/session/compaction/asked.h"
#include "gateway/session/compaction/cleared.h"
#include "gateway/session/compaction/sealed_summary.h"
#include "gateway/session/compaction/written.h"
#include "gateway/session/log/logged_turn.h"

namespace kvgate::proxy::handler {

class CompactionStep {
 public:
  explicit CompactionStep(RequestContext& request) : request_(request) {}

  enum class Outcome : uint8_t {
    kGoesOn,    // the request is to be answered as any other
    kForwards,  // it goes to its upstream as it came
    kAnswered,
  };
  Task<Outcome> Begin();

 private:
  using Dialect = dialect::form::Dialect;

  // A summary, and the answer that it was read from.
  struct Made {
    session::log::Summary summary;
    std::string answer = {};
  };

  Task<Result<Outcome>> Take();
  // Opens what the body holds. Fails as OpenBody does.
  Task<Result<void>> Open(bool is_native);
  // Asks the request's target for the summary of its prompt, and once more in other words if it
  // writes none. Where it refuses, `refusal` is what it says.
  Task<Result<Made>> Summarise(const session::compaction::Asked& asked, request::Response& refusal);
  Task<Result<Made>> AskFor(std::string instructions, bool only_part, request::Response& refusal);
  // Makes a compaction, which is the whole answer.
  Task<Result<void>> Compact(const session::compaction::Asked& asked);
  // Clears what the edits ask for from the prompt, and notes what the answer is to say of it.
  Task<Result<void>> Clear(const session::compaction::Edits& edits);
  // Puts the edited body in the place of the request's; appends to `applied` what that cleared.
  Task<Result<void>> Apply(std::string_view type, session::compaction::Cleared cleared,
                           std::vector<session::compaction::AppliedEdit>& applied);
  // Puts a summary in the place of a prompt that has grown over the threshold. A summary that does
  // not come leaves the prompt as it is.
  Task<Result<Outcome>> Bound(const session::compaction::Asked& asked);
  // The tokens of the prompt; 0: they are not known.
  Task<int64_t> NumTokens();
  Task<int64_t> Count() const;
  // The context of the model, in tokens; 0: it is not known.
  int64_t ContextTokens() const;
  // `answer` is that to the request for the summary.
  session::compaction::Compaction Sealed(std::string summary, session::compaction::Covers covers,
                                         std::string answer) const;
  // Answers with the compaction and nothing else.
  Task<void> ReplyWith(const session::compaction::Compaction& compaction,
                       session::compaction::Surface surface);

  RequestContext& request_;
  Dialect dialect_ = Dialect::kResponses;
  std::optional<int64_t> num_tokens_;  // of the prompt as it is, once they are counted
};

}  // namespace kvgate::proxy::handler
