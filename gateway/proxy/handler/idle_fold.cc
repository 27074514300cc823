#include "gateway/proxy/handler/idle_fold.h"

#include <chrono>
#include <memory>
#include <utility>

#include "base/log.h"
#include "gateway/proxy/handler/session_compact.h"

namespace kvgate::proxy::handler {

using session::summary::IdlePrices;

namespace {

constexpr double kShareOfLife = 0.9;
constexpr std::string_view kPurpose = "summary";

// What is known of the cache that holds the turn's prefix; null if nothing is.
const ledger::PriceRow* RowOf(const RequestContext& request, const session::SessionTurn& turn) {
  const ledger::Prices* const prices = request.environment().options.prices;
  if (prices == nullptr) return nullptr;
  const Result<upstream::Upstream*> upstream =
      request.targets().upstreams->Choose({.dialect = request.kind().dialect,
                                           .endpoint = request.kind().endpoint,
                                           .name = request.Header("x-kvgate-upstream"),
                                           .model = turn.request.model});
  return upstream ? prices->Find((*upstream)->provider(), turn.request.model) : nullptr;
}

IdlePrices PricesOf(const ledger::PriceRow& row) {
  IdlePrices prices;
  if (row.factors) {
    prices.read = row.factors->read;
    prices.write = row.factors->write;
  }
  if (row.prices && row.prices->input > 0) prices.output = row.prices->output / row.prices->input;
  return prices;
}

}  // namespace

void IdleFold::Begin(const RequestContext& request, const session::SessionTurn& turn) {
  session::Sessions& sessions = *request.environment().options.sessions;
  if (!sessions.folds_idle()) return;
  const FoldTarget target = FoldTargetOf(request, turn.request.dialect, turn.request.model);
  if (target.is_local || target.needs_callers_key) return;
  const ledger::PriceRow* const row = RowOf(request, turn);
  if (row == nullptr || row->rules.ttl_seconds == 0) return;
  const auto time = std::chrono::duration_cast<SteadyClock::duration>(
      std::chrono::duration<double>(kShareOfLife * static_cast<double>(row->rules.ttl_seconds)));
  const session::summary::Folds::Session session{.tenant = turn.tenant, .key = turn.ask.key};
  const bool is_first =
      sessions.idle().Note(session, {.at = SteadyClock::now() + time, .turn = turn.turn.id});
  if (!is_first) return;
  auto job =
      std::make_shared<IdleFold>(request, Args{.session = session, .prices = PricesOf(*row)});
  if (!request.environment().waiting->Spawn(std::move(job), request.sink().executor())) {
    sessions.idle().Forget(session);
  }
}

IdleFold::IdleFold(const RequestContext& request, Args args)
    : requests_(request, /*is_background=*/true),
      sessions_(*request.environment().options.sessions),
      args_(std::move(args)) {}

Task<void> IdleFold::Run() {
  KeepingSink& sink = requests_.sink();
  session::summary::IdleSessions::Due due = sessions_.idle().Of(args_.session);
  while (!sink.is_gone() && SteadyClock::now() < due.at) {
    co_await sink.signal().SleepUntil(due.at);
    due = sessions_.idle().Of(args_.session);
  }
  sessions_.idle().Forget(args_.session);
  if (sink.is_gone()) co_return;
  co_await Fold(std::move(due.turn));
}

Task<void> IdleFold::Fold(std::string turn) {
  const std::unique_ptr<RequestContext> context = requests_.Open("/v1/messages", kPurpose);
  const Result<session::Sessions::Stored> stored = co_await PlanCompaction(
      *context, sessions_, {.tenant = args_.session.tenant, .key = args_.session.key});
  if (!stored || !stored->turn->fold || stored->turn->turn.parent != turn) co_return;
  const session::FoldPlan& plan = *stored->turn->fold;
  if (!session::summary::Pays(args_.prices,
                              {.tokens_before = plan.event.tokens_before,
                               .tokens_after = plan.event.tokens_after + plan.tokens_max,
                               .summary_tokens = plan.tokens_max})) {
    co_return;
  }
  std::unique_ptr<session::SessionFold> fold =
      sessions_.BeginFold(*stored->turn, stored->body, session::summary::Folds::Trigger::kIdle);
  if (fold == nullptr) co_return;
  KVGATE_LOG(kDebug, "proxy", "session '{}' is folded before its prefix leaves the cache",
             args_.session.key);
  FoldRunner runner(*context, {.fold = std::move(fold)});
  co_await runner.Run();
}

}  // namespace kvgate::proxy::handler
