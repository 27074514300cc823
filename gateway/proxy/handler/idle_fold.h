// IdleFold: waits beside one session until its prefix is about to leave its provider's cache, and
// folds it then if that pays (session/summary/idle.h). It waits on as long as turns come.
#pragma once

#include <optional>
#include <string>

#include "gateway/ledger/prices.h"
#include "gateway/proxy/handler/fold_runner.h"
#include "gateway/proxy/handler/own_request.h"
#include "gateway/proxy/work/background.h"
#include "gateway/session/summary/idle.h"

namespace kvgate::proxy::handler {

class IdleFold final : public work::BackgroundJob {
 public:
  // Begins to wait beside the session of a turn that has been answered, if it is wanted: an
  // upstream with a key of its own answers it, and its cache has a lifetime.
  static void Begin(const RequestContext& request, const session::SessionTurn& turn);

  struct Args {
    session::summary::Folds::Session session;
    session::summary::IdlePrices prices;
  };
  IdleFold(const RequestContext& request, Args args);

  Task<void> Run() override;
  void Cancel() override { requests_.sink().Cancel(); }

 private:
  Task<void> Fold(std::string turn);

  OwnRequests requests_;
  session::Sessions& sessions_;
  const Args args_;
};

}  // namespace kvgate::proxy::handler
