#include "gateway/proxy/handler/compaction_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "gateway/local/prefix_service.h"
#include "gateway/proxy/handler/fold_runner.h"
#include "gateway/proxy/handler/model_context.h"
#include "gateway/proxy/handler/session_step.h"
#include "gateway/session/compaction/inserted.h"
#include "gateway/session/compaction/opened.h"
#include "gateway/session/compaction/summary_request.h"
#include "gateway/session/compaction/written.h"

namespace kvgate::proxy::handler {

namespace compaction = session::compaction;
using compaction::AppliedEdit;
using compaction::Asked;
using compaction::Cleared;
using compaction::ClearThinking;
using compaction::ClearToolUses;
using compaction::Compaction;
using compaction::Covers;
using compaction::Insertion;
using compaction::Surface;
using compaction::Threshold;
using dialect::form::Dialect;
using request::Response;
using request::Route;

namespace {

constexpr int64_t kSummaryTokens = 4096;  // or an eighth of the context, if that is less
constexpr int64_t kContextPercent = 80;   // of the context, where a threshold says no number

// True for providers that make compactions in this dialect, and read their own. A server of an
// unknown address counts as its dialect's provider only where its settings say so.
bool MakesCompactions(const upstream::Upstream& upstream, Dialect dialect) {
  const bool is_messages = dialect == Dialect::kMessages;
  const auto endpoint =
      is_messages ? dialect::form::Endpoint::kMessages : dialect::form::Endpoint::kResponses;
  const std::string_view maker = is_messages ? "anthropic" : "openai";
  const bool is_said = upstream.config().provider == maker ||
                       upstream.url().host.ends_with(std::string(maker) + ".com");
  return is_said && upstream.Has(endpoint) && upstream.provider() == maker;
}

// True if the request goes to upstreams alone, and each that it may go to `is_such`.
template <typename IsSuch>
bool GoesToSuch(const RequestContext& request, Dialect dialect, IsSuch is_such) {
  const std::string& model = request.scan().model;
  if (FoldTargetOf(request, dialect, model).is_local) return false;
  const std::vector<MaybeTarget> targets = TargetsOf(request, dialect, model);
  return !targets.empty() &&
         std::all_of(targets.begin(), targets.end(), [&](const MaybeTarget& target) {
           return target.upstream != nullptr && is_such(*target.upstream);
         });
}

// True if whoever may answer the request makes compactions itself.
bool IsNative(const RequestContext& request, Dialect dialect) {
  return GoesToSuch(request, dialect, [&](const upstream::Upstream& upstream) {
    return MakesCompactions(upstream, dialect);
  });
}

// True if whoever may answer the request takes it as a request of Messages, untranslated.
bool SpeaksMessages(const RequestContext& request) {
  return GoesToSuch(request, Dialect::kMessages, [](const upstream::Upstream& upstream) {
    return upstream.Has(dialect::form::Endpoint::kMessages);
  });
}

}  // namespace

Task<CompactionStep::Outcome> CompactionStep::Begin() {
  const std::optional<Dialect> dialect = DialectWithTurns(request_.place().route);
  if (!dialect || *dialect == Dialect::kChatCompletions) co_return Outcome::kGoesOn;
  if (request_.environment().options.keyring == nullptr) {
    const bool is_compact = request_.place().route == Route::kCompact;
    co_return is_compact ? Outcome::kForwards : Outcome::kGoesOn;
  }
  dialect_ = *dialect;
  const Result<Outcome> outcome = co_await Take();
  if (outcome) co_return *outcome;
  Error error = outcome.error();
  co_await request_.Refuse(std::move(error));
  co_return Outcome::kAnswered;
}

Task<Result<CompactionStep::Outcome>> CompactionStep::Take() {
  const bool is_compact = request_.place().route == Route::kCompact;
  if (request_.body().is_encoded()) {
    const Result<void> scanned = co_await request_.Scan();
    if (!scanned) co_return scanned.error();
  }
  const bool concerns = is_compact || compaction::MayConcern(request_.body().text());
  if (!concerns) co_return Outcome::kGoesOn;
  const Result<void> scanned = co_await request_.Scan();
  if (!scanned) co_return scanned.error();
  if (request_.body().is_encoded() && !request_.body().is_decoded()) co_return Outcome::kGoesOn;
  const bool is_native = IsNative(request_, dialect_);
  Result<Asked> asked = Asked();
  std::function<void()> read = [&] {
    asked = compaction::ReadAsked(dialect_, is_compact, request_.body().text());
  };
  co_await request_.work().RunSized(request_.body().text().size(), std::move(read));
  // What is wrong with a body that its upstream understands, that one says.
  if (!asked && !is_native) co_return asked.error();
  const Result<void> opened = co_await Open(is_native);
  if (!opened) co_return opened.error();
  if (is_native) co_return is_compact ? Outcome::kForwards : Outcome::kGoesOn;
  if (asked->surface == Surface::kNone && !asked->edits.empty()) {
    const Result<void> cleared = co_await Clear(asked->edits);
    if (!cleared) co_return cleared.error();
  }
  if (asked->surface == Surface::kNone && asked->threshold) {
    Result<Outcome> outcome = co_await Bound(*asked);
    co_return outcome;
  }
  if (asked->surface == Surface::kNone) co_return Outcome::kGoesOn;
  const Result<void> compacted = co_await Compact(*asked);
  if (!compacted) co_return compacted.error();
  co_return Outcome::kAnswered;
}

Task<Result<void>> CompactionStep::Open(bool is_native) {
  const std::string tenant = local::TenantOf(request_.caller().credential());
  const Keyring& ring = *request_.environment().options.keyring;
  Result<std::optional<std::string>> opened = std::optional<std::string>();
  std::function<void()> open = [&] {
    opened = compaction::OpenBody(
        {.dialect = dialect_,
         .body = request_.body().text(),
         .is_native = is_native,
         .open = [&](std::string_view sealed) { return compaction::Open(ring, tenant, sealed); }});
  };
  co_await request_.work().RunSized(request_.body().text().size(), std::move(open));
  if (!opened) co_return opened.error();
  if (!*opened) co_return Result<void>();
  const Result<void> replaced = request_.ReplaceBody(**std::move(opened));
  if (!replaced) co_return replaced.error();
  const Result<void> scanned = co_await request_.Scan();
  co_return scanned;
}

int64_t CompactionStep::ContextTokens() const {
  const std::string& model = request_.scan().model;
  if (!FoldTargetOf(request_, dialect_, model).is_local) {
    return ContextOf(request_, dialect_, model);
  }
  const session::Sessions* const sessions = request_.environment().options.sessions;
  return sessions == nullptr ? 0 : sessions->local_model().context_tokens;
}

Task<int64_t> CompactionStep::NumTokens() {
  if (!num_tokens_) num_tokens_ = co_await Count();
  co_return *num_tokens_;
}

Task<int64_t> CompactionStep::Count() const {
  const bool is_local = FoldTargetOf(request_, dialect_, request_.scan().model).is_local;
  if (!is_local) {
    const Result<service::Prompts::Known> known = co_await request_.Recognize();
    co_return known ? known->num_tokens : 0;
  }
  if (request_.environment().options.sessions == nullptr) co_return 0;
  session::Sessions::ComposeArgs args;
  CountWithLocalModel(request_, dialect_, args);
  Result<int64_t> tokens = 0;
  std::function<void()> count = [&] { tokens = args.count(request_.body().text()); };
  co_await request_.work().RunSized(request_.body().text().size(), std::move(count));
  co_return tokens ? *tokens : 0;
}

Compaction CompactionStep::Sealed(std::string summary, Covers covers, std::string answer) const {
  Compaction compaction{.dialect = dialect_,
                        .request_id = request_.head().request_id,
                        .summary = std::move(summary),
                        .answer = std::move(answer)};
  compaction.sealed = compaction::Seal(*request_.environment().options.keyring,
                                       local::TenantOf(request_.caller().credential()),
                                       {.text = compaction.summary, .covers = covers});
  return compaction;
}

Task<void> CompactionStep::ReplyWith(const Compaction& compaction, Surface surface) {
  const bool streams = surface != Surface::kCompact && request_.scan().stream;
  Response response{
      .body = compaction::WriteAnswer(
          compaction, {.surface = surface, .streams = streams, .body = request_.body().text()})};
  if (request_.notes().inserted) {
    compaction::Inserter inserter(request_.notes().inserted);
    if (streams) {
      response.body = inserter.TakePiece(response.body);
      response.body += inserter.Finish();
    } else {
      response.body = inserter.TakeBody(response.body);
    }
  }
  if (streams) response.content_type = "text/event-stream";
  co_await request_.Reply(std::move(response));
}

Task<Result<CompactionStep::Made>> CompactionStep::Summarise(const Asked& asked,
                                                             Response& refusal) {
  const bool is_bound = asked.surface == Surface::kNone;
  const std::string& instructions = is_bound ? asked.threshold->instructions : asked.instructions;
  Result<Made> made = co_await AskFor(instructions, /*only_part=*/false, refusal);
  const bool is_answered = made || refusal.status != 200 || request_.sink().is_gone() ||
                           made.error().code != ErrorCode::kUnavailable;
  // What is kept elsewhere cannot be told in other words.
  if (is_answered || asked.is_chained) co_return made;
  made = co_await AskFor(instructions, /*only_part=*/true, refusal);
  co_return made;
}

Task<Result<CompactionStep::Made>> CompactionStep::AskFor(std::string instructions, bool only_part,
                                                          Response& refusal) {
  OwnRequests requests(request_, /*is_background=*/false);
  KeepingSink& sink = requests.sink();
  const std::unique_ptr<RequestContext> context = requests.Open(PathOf(dialect_), kSummaryPurpose);
  const int64_t context_tokens = ContextTokens();
  Result<std::string> body = std::string();
  std::function<void()> write = [&] {
    body = compaction::WriteRequest(
        {.dialect = dialect_,
         .body = request_.body().text(),
         .instructions = instructions,
         .tokens_max =
             context_tokens > 0 ? std::min(kSummaryTokens, context_tokens / 8) : kSummaryTokens,
         .only_part = only_part});
  };
  co_await request_.work().RunSized(request_.body().text().size(), std::move(write));
  if (!body) co_return body.error();
  const Result<void> replaced = context->ReplaceBody(*std::move(body));
  if (!replaced) co_return replaced.error();
  co_await requests.Serve(Generation(), *context, request_.sink());
  if (sink.is_gone()) {
    co_return MakeError(ErrorCode::kUnavailable, "proxy", "The server ends; try again.");
  }
  if (sink.status != 200) {
    refusal = sink.body.empty() ? request::StatusResponse(sink.status, "No summary came.")
                                : Response{.status = sink.status, .body = sink.body};
    co_return MakeError(
        ErrorCode::kUnavailable, "proxy",
        fmt::format("the request for the summary was answered with status {}", sink.status));
  }
  Result<session::log::Summary> summary = compaction::ReadSummary(dialect_, sink.body);
  if (!summary) {
    co_return MakeError(ErrorCode::kUnavailable, "proxy",
                        fmt::format("The model has written no summary: {}. Try again, or with "
                                    "another model.",
                                    summary.error().detail));
  }
  co_return Made{.summary = *std::move(summary), .answer = std::move(sink.body)};
}

Task<Result<void>> CompactionStep::Compact(const Asked& asked) {
  Response refusal;
  Result<Made> made = co_await Summarise(asked, refusal);
  if (!made && refusal.status != 200) {
    // Whoever was asked says what is wrong, in the caller's dialect.
    co_await request_.Reply(std::move(refusal));
    co_return Result<void>();
  }
  if (!made) co_return made.error();
  request_.notes().compaction = fmt::format("done;before={};after={}", made->summary.tokens.input,
                                            made->summary.tokens.output);
  // What an agent keeps in front of an item of Responses are its user's words.
  const Covers covers = dialect_ == Dialect::kMessages ? Covers::kAll : Covers::kBesidesUser;
  const Compaction compaction =
      Sealed(std::move(made->summary.text), covers, std::move(made->answer));
  co_await ReplyWith(compaction, asked.surface);
  co_return Result<void>();
}

Task<Result<void>> CompactionStep::Apply(std::string_view type, Cleared cleared,
                                         std::vector<AppliedEdit>& applied) {
  const int64_t before = co_await NumTokens();
  num_tokens_.reset();
  const Result<void> replaced = request_.ReplaceBody(std::move(cleared.body));
  if (!replaced) co_return replaced.error();
  const Result<void> scanned = co_await request_.Scan();
  if (!scanned) co_return scanned.error();
  const int64_t after = co_await NumTokens();
  applied.push_back({.type = type,
                     .num_cleared = cleared.num_cleared,
                     .num_tokens = std::max<int64_t>(before - after, 0)});
  co_return Result<void>();
}

Task<Result<void>> CompactionStep::Clear(const compaction::Edits& edits) {
  // A session's window is bounded already.
  if (SessionStep::IsWanted(request_)) co_return Result<void>();
  std::vector<AppliedEdit> applied;
  std::optional<Cleared> cleared;
  const auto run = [&](std::function<void()> clear) {
    return request_.work().RunSized(request_.body().text().size(), std::move(clear));
  };
  if (edits.thinking) {
    co_await run([&] { cleared = ClearThinking(request_.body().text(), *edits.thinking); });
  }
  if (cleared) {
    const Result<void> done =
        co_await Apply(compaction::kClearThinking, *std::move(cleared), applied);
    if (!done) co_return done.error();
  }
  cleared.reset();
  if (edits.tool_uses) {
    // A token has at least one byte, so that a short prompt need not be counted.
    const bool is_long =
        static_cast<int64_t>(request_.body().text().size()) > edits.tool_uses->trigger;
    int64_t num_tokens = 0;
    if (is_long) num_tokens = co_await NumTokens();
    const std::string tenant = local::TenantOf(request_.caller().credential());
    co_await run([&] {
      cleared = ClearToolUses({.body = request_.body().text(),
                               .edit = *edits.tool_uses,
                               .num_tokens = num_tokens,
                               .tenant = tenant,
                               .marks = *request_.environment().cleared_marks});
    });
  }
  if (cleared) {
    const Result<void> done =
        co_await Apply(compaction::kClearToolUses, *std::move(cleared), applied);
    if (!done) co_return done.error();
  }
  // Where nothing is cleared, who speaks this dialect gets the request as it came.
  if (applied.empty() && SpeaksMessages(request_)) co_return Result<void>();
  if (!applied.empty()) {
    const Result<void> replaced =
        request_.ReplaceBody(compaction::WithoutAsking(dialect_, request_.body().text()));
    if (!replaced) co_return replaced.error();
    const Result<void> scanned = co_await request_.Scan();
    if (!scanned) co_return scanned.error();
  }
  request_.notes().inserted = std::make_shared<const Insertion>(
      Insertion{.dialect = dialect_, .edits = std::move(applied)});
  co_return Result<void>();
}

Task<Result<CompactionStep::Outcome>> CompactionStep::Bound(const Asked& asked) {
  const Threshold& threshold = *asked.threshold;
  // Of a session and of what goes on by an id the window is bounded already, and counting needs no
  // answer.
  const bool is_answered =
      request_.place().route == Route::kResponses || request_.place().route == Route::kMessages;
  int64_t tokens = 0;
  if (is_answered && !asked.is_chained && !SessionStep::IsWanted(request_)) {
    tokens = co_await NumTokens();
  }
  const int64_t own = ContextTokens() * kContextPercent / 100;
  const int64_t most = threshold.tokens > 0 ? threshold.tokens : own;
  const bool is_over = tokens > 0 && most > 0 && tokens >= most;
  Response refusal;
  Result<Made> made = MakeError(ErrorCode::kUnavailable, "proxy", "it is not due");
  if (is_over) made = co_await Summarise(asked, refusal);
  std::string body = compaction::WithoutAsking(dialect_, request_.body().text());
  if (is_over && !made) {
    KVGATE_LOG(kWarning, "proxy", "request {} is not compacted: {}", request_.head().request_id,
               made.error().detail);
  }
  if (made) {
    request_.notes().compaction =
        fmt::format("done;before={};after={}", tokens, made->summary.tokens.output);
    const Compaction compaction = Sealed(compaction::WithNewest(dialect_, body, made->summary.text),
                                         Covers::kAll, std::move(made->answer));
    if (threshold.pauses) {
      co_await ReplyWith(compaction, Surface::kPaused);
      co_return Outcome::kAnswered;
    }
    body = compaction::InPlace(dialect_, body, compaction.summary);
    Insertion insertion{.dialect = dialect_, .compaction = compaction};
    if (const auto& edited = request_.notes().inserted) insertion.edits = edited->edits;
    request_.notes().inserted = std::make_shared<const Insertion>(std::move(insertion));
  }
  const Result<void> replaced = request_.ReplaceBody(std::move(body));
  if (!replaced) co_return replaced.error();
  co_return Outcome::kGoesOn;
}

}  // namespace kvgate::proxy::handler
