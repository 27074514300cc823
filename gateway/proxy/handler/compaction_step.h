// CompactionStep: what a request's life has to do with compactions. It stands in front of all else:
// items that this gateway made become text that any model reads; and where a compaction is asked
// for whose target makes none itself, it is made here, by a summary that is an ordinary request to
// that target.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/handler/own_request.h"
#include "gateway/session/compaction/asked.h"
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
  Task<Result<Outcome>> Take();
  // Opens what the body holds. Fails as OpenBody does.
  Task<Result<void>> Open(bool is_native);
  // Asks for the summary and answers with it.
  Task<Result<void>> Compact(const session::compaction::Asked& asked);
  // Makes the whole answer, once the summary is there.
  std::string Answer(const session::compaction::Asked& asked, const session::log::Summary& summary,
                     std::string_view answer) const;
  int64_t TokensMax() const;

  RequestContext& request_;
  protocol::form::Dialect dialect_ = protocol::form::Dialect::kResponses;
};

}  // namespace kvgate::proxy::handler
