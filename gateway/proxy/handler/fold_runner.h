// FoldRunner: the life of one summary of a session. It asks for it by an ordinary request, which is
// routed, limited, recorded and kept append-only as any other; lets the local engine compute the
// prompt with it, so that its first turn is warm; and brings it into the session's log while no
// other request holds that. In the background it has no credential of its caller's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/handler/own_request.h"
#include "gateway/proxy/work/background.h"
#include "gateway/session/sessions.h"

namespace kvgate::proxy::handler {

// What a request for a summary is for, as a source of the ledger.
inline constexpr std::string_view kSummaryPurpose = "summary";

// The path of requests of a dialect.
std::string_view PathOf(dialect::form::Dialect dialect);

// Who would be asked for a summary.
struct FoldTarget {
  bool is_local = false;           // the local engine
  bool needs_callers_key = false;  // an upstream that has no key of its own (`api_key_env`)
};
// `model` is the one that writes, in this dialect; routes are as for `request`.
FoldTarget FoldTargetOf(const RequestContext& request, dialect::form::Dialect dialect,
                        const std::string& model);

class FoldRunner final : public work::BackgroundJob {
 public:
  struct Args {
    std::unique_ptr<session::SessionFold> fold;
    bool is_background = true;  // false: it runs within `request`, with the key of its caller
    bool prefills = false;      // the local engine answers the session
  };
  // `request` is one of the session, or about it.
  FoldRunner(const RequestContext& request, Args args);

  Task<void> Run() override;
  void Cancel() override;
  // What came of it. REQUIRES: Run has ended.
  const Result<void>& result() const { return result_; }

 private:
  Task<Result<void>> Make();
  // Returns the id of the request.
  Task<Result<std::string>> Ask();
  Task<Result<std::shared_ptr<void>>> Hold(std::string turn);
  Task<void> Prefill();
  Task<Result<void>> Store(std::string request_id);

  OwnRequests requests_;
  request::Environment& environment_;
  session::Sessions& sessions_;
  const std::string_view target_;
  const bool prefills_;
  const std::shared_ptr<session::SessionFold> fold_;
  KeepingSink& sink_;
  Result<void> result_;
};

}  // namespace kvgate::proxy::handler
