#include "gateway/service/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include <kvgate/log.h>

#include "gateway/protocol/chat_completions.h"
#include "gateway/protocol/completions.h"
#include "gateway/protocol/json_writer.h"
#include "gateway/protocol/messages.h"

namespace kvgate::service {

using protocol::CompletionRequest;
using protocol::Dialect;
using protocol::JsonWriter;

namespace {

Result<CompletionRequest> DecodeAlone(Dialect dialect, std::string_view body,
                                      const protocol::DecodeLimits& limits) {
  switch (dialect) {
    case Dialect::kChatCompletions:
      return protocol::DecodeChatCompletions(body, limits);
    case Dialect::kCompletions:
      return protocol::DecodeCompletions(body, limits);
    case Dialect::kMessages:
      return protocol::DecodeMessages(body, protocol::MessagesUse::kCreate, limits);
    case Dialect::kResponses:
      break;
  }
  return MakeError(ErrorCode::kUnsupported, "service", "This dialect is not served.");
}

int LongestMark(const CompletionRequest& request) {
  int ttl_seconds = request.tools_cache_ttl_seconds;
  if (const auto* messages = std::get_if<std::vector<protocol::Message>>(&request.prompt)) {
    for (const protocol::Message& message : *messages) {
      ttl_seconds = std::max(ttl_seconds, message.cache_ttl_seconds);
    }
  }
  return ttl_seconds;
}

}  // namespace

// --- Completion -------------------------------------------------------------------------------

Completion::Completion(Parts parts) : parts_(std::move(parts)) {
  for (int i = 0; i < parts_.num_choices && !parts_.hooks.empty(); ++i) choices_.emplace_back(i);
  parts_.metrics.requests_active.Add(1);
}

Completion::~Completion() { parts_.metrics.requests_active.Add(-1); }

std::string Completion::Begin() {
  std::string bytes;
  if (!std::exchange(started_, true)) parts_.encoder->OnStart(usage_, bytes);
  return bytes;
}

Completion::Output Completion::Next() {
  Output output;
  if (!finish_) TakeEvents(output);
  output.completed = finish_ && !finish_->error && !parts_.hooks.empty();
  if (finish_ && !output.completed) {
    Finish(*finish_, output);
  } else {
    parts_.record->OnAnswer(output.bytes.size());
  }
  return output;
}

void Completion::TakeEvents(Output& output) {
  for (protocol::CompletionEvent& event : parts_.stream->Take()) {
    if (auto* finish = std::get_if<protocol::FinishEvent>(&event)) {
      finish_ = std::move(*finish);
      return;
    }
    if (const auto* begin = std::get_if<protocol::BeginEvent>(&event)) usage_ = begin->usage;
    output.bytes += Begin();
    if (const auto* delta = std::get_if<protocol::DeltaEvent>(&event)) {
      if (!choices_.empty()) choices_[static_cast<size_t>(delta->choice)].Add(*delta);
      parts_.encoder->OnDelta(*delta, output.bytes);
    }
  }
}

void Completion::RunHooks() {
  // What they hold is let go of before the client knows of the end, too.
  const std::vector<AnswerHook> hooks = std::exchange(parts_.hooks, {});
  for (const AnswerHook& hook : hooks) {
    const Result<void> done = hook({.finish = *finish_, .choices = choices_});
    if (done) continue;
    finish_->error = done.error();
    return;
  }
}

void Completion::Finish(protocol::FinishEvent& finish, Output& output) {
  output.finished = true;
  parts_.hooks.clear();
  const bool begun = parts_.streaming && started_;
  parts_.record->OnFinish(finish, begun);
  finish.stats.prefix_break = parts_.record->BreakJson();
  num_tokens_ =
      static_cast<uint64_t>(finish.stats.num_prompt_tokens + finish.stats.num_output_tokens);
  if (finish.error && !begun) {
    output.error = finish.error;
    output.bytes.clear();
  } else {
    output.bytes += Begin();
    parts_.encoder->OnFinish(finish, output.bytes);
  }
  parts_.record->OnAnswer(output.bytes.size());
  parts_.record->End();
}

// --- Service ----------------------------------------------------------------------------------

Service::Service(Parts parts)
    : parts_(std::move(parts)),
      prefixes_({.kv = parts_.kv,
                 .pins = parts_.pins,
                 .hash_seed = parts_.hash_seed,
                 .no_disk_reason = parts_.no_disk_reason,
                 .limits = parts_.limits}),
      reasoning_(parts_.turns),
      responses_(parts_.turns, parts_.limits),
      conversations_(responses_.conversations(), responses_.limits()) {
  parts_.registry.AddCollector([this](metrics::TextWriter& writer) {
    CollectEngine(writer);
    CollectStore(writer);
    CollectTurns(writer);
    if (parts_.ledger != nullptr) parts_.ledger->Collect(writer);
  });
}

void Service::SetLocal(std::unique_ptr<provider::LocalProvider> local) {
  local_ = std::move(local);
  prefixes_.SetEngine(local_->engine());
  local_ready_.store(true);
}

bool Service::ready() const {
  if (draining_.load()) return false;
  if (!parts_.has_local) return true;
  return local_ready_.load() && !local_->engine().Failure().has_value();
}

bool Service::ServesLocal(const std::string& model) const {
  return local_ready_.load() && local_->Serves(model);
}

bool IsOverload(const Error& error) {
  return error.code == ErrorCode::kOverloaded || error.code == ErrorCode::kRateLimited ||
         error.code == ErrorCode::kUnavailable;
}

Result<const provider::LocalProvider*> Service::Route(const std::string& model) const {
  if (!parts_.has_local) {
    return MakeError(ErrorCode::kNotFound, "service",
                     fmt::format("The model '{}' does not exist here.", model), "model");
  }
  if (!local_ready_.load()) {
    return MakeError(ErrorCode::kUnavailable, "service",
                     "The model is still being loaded; try again in a moment.");
  }
  if (!local_->Serves(model)) {
    return MakeError(ErrorCode::kNotFound, "service",
                     fmt::format("The model '{}' does not exist here; this server has '{}'.", model,
                                 local_->id()),
                     "model");
  }
  return static_cast<const provider::LocalProvider*>(local_.get());
}

Result<std::unique_ptr<Completion>> Service::Start(const StartArgs& args) {
  auto record = std::make_unique<LocalRecord>(
      LocalRecord::Args{.ledger = parts_.ledger,
                        .dialect = args.dialect,
                        .request_id = args.request_id,
                        .tenant = args.tenant.empty() ? TenantOf(args.credential) : args.tenant});
  Result<std::unique_ptr<Completion>> completion = StartLocal(args, record);
  if (!completion && args.has_next && IsOverload(completion.error())) {
    record->Drop();
  } else if (!completion) {
    record->OnRefused(completion.error());
  }
  return completion;
}

// What goes on from earlier answers has a turn of its own.
Result<CompletionRequest> Service::Decode(const StartArgs& args,
                                          std::shared_ptr<ResponseTurn>& turn) {
  if (args.dialect != Dialect::kResponses) {
    return DecodeAlone(args.dialect, args.body, parts_.limits);
  }
  KVGATE_TRY(turn, responses_.Begin({.body = args.body,
                                     .tenant = TenantOf(args.credential),
                                     .request_id = args.request_id}));
  return std::move(turn->request);
}

// Takes the record where it begins a completion.
Result<std::unique_ptr<Completion>> Service::StartLocal(const StartArgs& args,
                                                        std::unique_ptr<LocalRecord>& record) {
  if (draining_.load()) {
    return MakeError(ErrorCode::kUnavailable, "service",
                     "The server is shutting down and takes no new requests.");
  }
  std::shared_ptr<ResponseTurn> turn;
  KVGATE_TRY(CompletionRequest request, Decode(args, turn));
  record->OnRequest(request);
  KVGATE_TRY(const provider::LocalProvider* local,
             Route(args.any_model && local_ready_.load() ? local_->id() : request.model));
  std::vector<AnswerHook> hooks;
  // A caller who says that a response is not to be stored means all of it.
  const bool stores = !turn || turn->shape.stored;
  if (auto hook = RememberReasoning(args, *local, request); hook && stores) {
    hooks.push_back(std::move(hook));
  }
  const provider::LocalProvider::RunArgs run{.request = request,
                                             .tenant = TenantOf(args.credential),
                                             .logits_hash = args.explain,
                                             .wake = args.wake};
  auto stream = local->Run(run);
  while (!stream && turn && turn->Shorten(stream.error(), request)) stream = local->Run(run);
  if (!stream) return std::move(stream).error();
  record->OnBody(args.body);
  // What goes on from kept turns is not told by its body.
  if (parts_.prompts != nullptr &&
      !(turn && (!turn->parent.empty() || !turn->conversation.empty()))) {
    record->Watch(*parts_.prompts, args.body);
  }
  const int num_choices = static_cast<int>(request.more_prompts.size() + 1) * request.num_choices;
  protocol::ReplyOptions options{
      .dialect = request.dialect,
      .request_id = args.request_id,
      .created_unix = static_cast<int64_t>(std::time(nullptr)),
      .model = local->id(),
      .system_fingerprint = parts_.system_fingerprint,
      .echo = request.echo ? local->PromptTexts(request) : std::vector<std::string>(),
      .num_choices = num_choices,
      .stream = request.stream,
      .include_usage = request.include_usage,
      .logprobs = request.num_logprobs >= 0,
      .explain = args.explain,
      .cache_ttl_seconds = LongestMark(request),
      .response = turn ? turn->shape : protocol::ResponseShape(),
  };
  if (turn) hooks.push_back(responses_.KeepAnswer(std::move(turn), options));
  return std::make_unique<Completion>(
      Completion::Parts{.stream = std::move(*stream),
                        .encoder = protocol::MakeReplyEncoder(std::move(options)),
                        .streaming = request.stream,
                        .num_choices = num_choices,
                        .metrics = parts_.metrics,
                        .record = std::move(record),
                        .hooks = std::move(hooks)});
}

// Gives the request's turns their reasoning back; what keeps that of its answer.
AnswerHook Service::RememberReasoning(const StartArgs& args, const provider::LocalProvider& local,
                                      CompletionRequest& request) const {
  auto* messages = std::get_if<std::vector<protocol::Message>>(&request.prompt);
  if (messages == nullptr || parts_.turns == nullptr || !local.writes_reasoning()) return {};
  ReasoningMemory::KeepArgs keep{.tenant = TenantOf(args.credential), .id = args.request_id};
  keep.before = reasoning_.Restore(keep.tenant, *messages);
  return [this, keep, prefix = request.answer_prefix](const Answer& answer) -> Result<void> {
    for (const protocol::ReplyChoice& choice : answer.choices) {
      ReasoningMemory::KeepArgs each = keep;
      if (choice.index() > 0) each.id += fmt::format("-{}", choice.index());
      each.message = choice.ToMessage();
      each.message.content.insert(0, prefix);
      reasoning_.Keep(each);
    }
    return {};
  };
}

Result<std::string> Service::CountTokens(const CountArgs& args) {
  CompletionRequest request;
  const std::string tenant = TenantOf(args.credential);
  if (args.dialect == Dialect::kResponses) {
    KVGATE_TRY(const auto turn, responses_.Begin({.body = args.body,
                                                  .tenant = tenant,
                                                  .request_id = {},
                                                  .use = Responses::Use::kCount}));
    request = std::move(turn->request);
  } else {
    KVGATE_TRY(request,
               protocol::DecodeMessages(args.body, protocol::MessagesUse::kCount, parts_.limits));
  }
  KVGATE_TRY(const provider::LocalProvider* local, Route(request.model));
  auto* messages = std::get_if<std::vector<protocol::Message>>(&request.prompt);
  if (messages != nullptr && local->writes_reasoning()) reasoning_.Restore(tenant, *messages);
  KVGATE_TRY(const int64_t num_tokens, local->CountTokens(request));
  return args.dialect == Dialect::kResponses ? protocol::EncodeInputTokens(num_tokens)
                                             : protocol::EncodeTokenCount(num_tokens);
}

Result<std::unique_ptr<WarmJob>> Service::StartWarm(const WarmArgs& args) {
  if (draining_.load()) {
    return MakeError(ErrorCode::kUnavailable, "service",
                     "The server is shutting down and takes no new requests.");
  }
  KVGATE_TRY(const protocol::WarmRequest warm, protocol::DecodeWarm(args.body, parts_.limits));
  KVGATE_TRY(const provider::LocalProvider* local, Route(warm.request.model));
  KVGATE_TRY(std::vector<TokenId> tokens, local->EncodePrefix(warm.request));
  return WarmJob::Start({.engine = local->engine(),
                         .prefixes = prefixes_,
                         .tokens = std::move(tokens),
                         .tenant = TenantOf(args.credential),
                         .pin = warm.pin,
                         .wake = args.wake});
}

}  // namespace kvgate::service
