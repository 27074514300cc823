#include "gateway/service/service.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "gateway/dialect/own/prefix_requests.h"
#include "gateway/local/prompt_tokens.h"
#include "gateway/service/completion_start.h"

namespace kvgate::service {

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
  for (dialect::form::CompletionEvent& event : parts_.stream->Take()) {
    if (auto* finish = std::get_if<dialect::form::FinishEvent>(&event)) {
      finish_ = std::move(*finish);
      return;
    }
    if (const auto* begin = std::get_if<dialect::form::BeginEvent>(&event)) usage_ = begin->usage;
    output.bytes += Begin();
    if (const auto* delta = std::get_if<dialect::form::DeltaEvent>(&event)) {
      if (!choices_.empty()) choices_[static_cast<size_t>(delta->choice)].Add(*delta);
      parts_.encoder->OnDelta(*delta, output.bytes);
    }
  }
}

std::function<Result<void>()> Completion::TakeHooks() {
  return [hooks = std::exchange(parts_.hooks, {}), finish = *finish_,
          choices = std::exchange(choices_, {})]() mutable -> Result<void> {
    // The hooks are destroyed on return, so that what they hold (such as a conversation's lock) is
    // released before the client sees the end.
    const std::vector<session::AnswerHook> all = std::exchange(hooks, {});
    for (const session::AnswerHook& hook : all) {
      KVGATE_TRY_VOID(hook({.finish = finish, .choices = choices}));
    }
    return {};
  };
}

void Completion::EndHooks(const Result<void>& done) {
  if (done) return;
  if (parts_.must_keep) {
    finish_->error = done.error();
  } else {
    KVGATE_LOG(kWarning, "service", "what was thought is not kept: {}", done.error().ToString());
  }
}

void Completion::Finish(dialect::form::FinishEvent& finish, Output& output) {
  output.finished = true;
  parts_.hooks.clear();
  const bool begun = parts_.streaming && started_;
  parts_.record->OnFinish(finish, begun);
  finish.stats.prefix_break = parts_.record->BreakJson();
  // The body distinguishes tools and retrieval, which the engine sees only as parts of messages.
  if (auto segments = parts_.record->Segments(); !segments.empty()) {
    finish.stats.segments = std::move(segments);
  }
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
                 .keyring = parts_.keyring,
                 .no_disk_reason = parts_.no_disk_reason,
                 .limits = parts_.limits}),
      reasoning_(parts_.turns),
      responses_(parts_.turns, parts_.limits, parts_.sessions),
      conversations_(responses_.conversations(), responses_.limits()) {
  parts_.registry.AddCollector([this](metrics::TextWriter& writer) { Collect(writer); });
}

void Service::SetLocal(std::unique_ptr<local::LocalProvider> local) {
  local_ = std::move(local);
  const auto text = [this](const std::vector<TokenId>& tokens) {
    dialect::form::CompletionRequest request;
    request.prompt = tokens;
    return local_->PromptTexts(request).front();
  };
  prefixes_.SetEngine(local_->engine(), {.name = local_->id(), .text = text});
  local_ready_.store(true);
}

bool Service::ready() const {
  if (unready_.load()) return false;
  if (parts_.embeddings != nullptr && parts_.embeddings->get() == nullptr) return false;
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

Result<const local::LocalProvider*> Service::Route(const std::string& model) const {
  const bool is_chat = local_ready_.load() && local_->Serves(model);
  if (!is_chat && parts_.embeddings != nullptr && parts_.embeddings->Serves(model)) {
    return MakeError(ErrorCode::kInvalidArgument, "service",
                     fmt::format("The model '{}' makes embeddings (POST /v1/embeddings) and "
                                 "generates no text.",
                                 model),
                     "model");
  }
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
  return static_cast<const local::LocalProvider*>(local_.get());
}

namespace {

// Runs all steps on this thread, which may therefore wait for the disk.
void Drive(CompletionStart& start) {
  while (start.next() != CompletionStart::Place::kNone) {
    if (start.next() == CompletionStart::Place::kStore) {
      start.StoreWork()();
      start.EndStore({});
    } else {
      start.Run();
    }
  }
}

// Decodes what a first request of this prompt would be rendered from. `prompts` may be null.
Result<dialect::own::WarmRequest> DecodeWarm(const Service::WarmArgs& args, const Prompts* prompts,
                                             const dialect::form::DecodeLimits& limits) {
  std::optional<std::string> prepared;
  if (prompts != nullptr && args.prompt) {
    const std::string tenant = args.tenant.empty() ? local::TenantOf(args.credential) : args.tenant;
    prepared = prompts->Preview({.body = args.body,
                                 .endpoint = dialect::form::Endpoint::kChatCompletions,
                                 .tenant = tenant,
                                 .upstream = args.prompt->engine,
                                 .provider = prompt::kLocalProvider,
                                 .key = args.prompt->key,
                                 .fields = args.prompt->fields,
                                 .credential = {}});
  }
  if (prepared) {
    Result<dialect::own::WarmRequest> warm = dialect::own::DecodeWarm(*prepared, limits);
    if (warm) return warm;
  }
  return dialect::own::DecodeWarm(args.body, limits);
}

}  // namespace

Result<std::unique_ptr<Completion>> Service::Start(const StartArgs& args) {
  CompletionStart start(*this, args);
  Drive(start);
  return start.Take();
}

Result<std::string> Service::CountTokens(const CountArgs& args) {
  CompletionStart start(*this,
                        {.dialect = args.dialect,
                         .body = args.body,
                         .credential = args.credential,
                         .request_id = {},
                         .wake = {}},
                        CompletionStart::Use::kCount);
  Drive(start);
  return start.TakeCount();
}

Result<std::unique_ptr<local::WarmJob>> Service::StartWarm(const WarmArgs& args) {
  if (draining_.load()) {
    return MakeError(ErrorCode::kUnavailable, "service",
                     "The server is shutting down and takes no new requests.");
  }
  KVGATE_TRY(const dialect::own::WarmRequest warm, DecodeWarm(args, parts_.prompts, parts_.limits));
  KVGATE_TRY(const local::LocalProvider* local, Route(warm.request.model));
  KVGATE_TRY(std::vector<TokenId> tokens, local->EncodePrefix(warm.request));
  KVGATE_TRY_VOID(
      local::CheckPromptTokens(tokens.size(), args.prompt_tokens_max, warm.request.dialect));
  return local::WarmJob::Start({.engine = local->engine(),
                                .prefixes = prefixes_,
                                .tokens = std::move(tokens),
                                .tenant = local::TenantOf(args.credential),
                                .pin = warm.pin,
                                .wake = args.wake});
}

}  // namespace kvgate::service
