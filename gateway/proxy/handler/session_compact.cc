#include "gateway/proxy/handler/session_compact.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "gateway/local/prefix_service.h"
#include "gateway/proxy/handler/fold_runner.h"
#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/handler/session_step.h"

namespace kvgate::proxy::handler {

using request::Response;
using session::Sessions;

Task<Result<Sessions::Stored>> PlanCompaction(RequestContext& request, Sessions& sessions,
                                              session::SessionAdmin::Place place) {
  auto stored = std::make_shared<Result<Sessions::Stored>>(
      MakeError(ErrorCode::kInternal, "proxy", "reading the session failed"));
  std::function<void()> read = [&sessions, stored, tenant = std::string(place.tenant),
                                key = std::string(place.key)] {
    *stored = sessions.ReadStored(tenant, key);
  };
  Result<void> done =
      co_await request.work().RunOnDisk(request.work().pools().store, std::move(read));
  if (!done) co_return done.error();
  if (!*stored) co_return stored->error();
  session::SessionTurn& turn = *(*stored)->turn;
  Sessions::ComposeArgs args{.body = (*stored)->body, .is_forced = true};
  const dialect::form::Dialect dialect = turn.request.dialect;
  if (FoldTargetOf(request, dialect, turn.request.model).is_local) {
    CountWithLocalModel(request, dialect, args);
  } else {
    FitUpstreamModel(request, dialect, turn.request.model, args);
  }
  Result<std::string> composed = std::string();
  std::function<void()> compose = [&] { composed = sessions.Compose(turn, args); };
  done = co_await request.work().RunOn(request.work().pools().request, std::move(compose));
  if (!done) co_return done.error();
  if (!composed) co_return composed.error();
  co_return *stored;
}

namespace {

Task<Result<std::string>> Compact(RequestContext& request, Sessions& sessions,
                                  session::SessionAdmin::Place place) {
  const Result<Sessions::Stored> stored = co_await PlanCompaction(request, sessions, place);
  if (!stored) co_return stored.error();
  if (!stored->turn->fold) {
    co_return MakeError(ErrorCode::kInvalidArgument, "proxy",
                        "The session has no rounds that a summary could shorten.");
  }
  std::unique_ptr<session::SessionFold> fold =
      sessions.BeginFold(*stored->turn, stored->body, session::summary::Folds::Trigger::kClient);
  if (fold == nullptr) {
    co_return MakeError(ErrorCode::kUnavailable, dialect::form::kSessionSource,
                        "A summary of the session is being made.");
  }
  const bool is_local =
      FoldTargetOf(request, stored->turn->request.dialect, stored->turn->request.model).is_local;
  FoldRunner runner(request,
                    {.fold = std::move(fold), .is_background = false, .prefills = is_local});
  co_await runner.Run();
  if (!runner.result()) co_return runner.result().error();
  auto shown = std::make_shared<Result<std::string>>(
      MakeError(ErrorCode::kInternal, "proxy", "reading the session failed"));
  std::function<void()> show = [&sessions, shown, tenant = std::string(place.tenant),
                                key = std::string(place.key)] {
    *shown = session::SessionAdmin(sessions).Show({.tenant = tenant, .key = key}, {.limit = "1"});
  };
  const Result<void> ran =
      co_await request.work().RunOnDisk(request.work().pools().store, std::move(show));
  if (!ran) co_return ran.error();
  co_return *shown;
}

class CompactHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    Result<std::string> body = std::string();
    Sessions* const sessions = request.environment().options.sessions;
    const Result<void> admitted = request::AdmitOwnData(request);
    if (!admitted) {
      body = admitted.error();
    } else if (sessions == nullptr) {
      body = session::log::SessionLog::NotKept();
    } else {
      const std::string tenant = local::TenantOf(request.caller().credential());
      body =
          co_await Compact(request, *sessions, {.tenant = tenant, .key = request.place().argument});
    }
    Response response =
        body ? Response{.body = *std::move(body)} : request::ErrorResponse(body.error());
    co_await request.Reply(std::move(response));
  }
};

}  // namespace

const Handler& CompactSession() {
  static const CompactHandler handler;
  return handler;
}

}  // namespace kvgate::proxy::handler
