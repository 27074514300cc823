#include "gateway/service/completion_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "gateway/dialect/chat/chat_completions.h"
#include "gateway/dialect/completions/completions.h"
#include "gateway/dialect/gemini/gemini_encoder.h"
#include "gateway/dialect/messages/messages.h"
#include "gateway/dialect/reply_encoders.h"
#include "gateway/local/prompt_tokens.h"
#include "gateway/prompt/whole_body.h"
#include "gateway/session/truncation.h"

namespace kvgate::service {

using dialect::form::CompletionRequest;
using dialect::form::Dialect;
using session::ReasoningMemory;
using session::Responses;

namespace {

// Waiting is better than rendering a conversation without what it has sent before, which costs its
// cached prefix. It happens once for each conversation.
constexpr std::chrono::milliseconds kRememberTime{2000};
// What the answer's head says of values that are held back.
constexpr std::string_view kHeldStale = "held_stale";

// How prompts are watched where nobody says how they may be changed.
const config::UpstreamConfig& Unchanged() {
  static const config::UpstreamConfig unchanged = [] {
    config::EngineConfig engine;
    engine.mode = prompt::ModeName(prompt::Mode::kObserve);
    return LocalUpstream(engine);
  }();
  return unchanged;
}

Result<CompletionRequest> DecodeAlone(Dialect dialect, std::string_view body,
                                      dialect::messages::MessagesUse use,
                                      const dialect::form::DecodeLimits& limits) {
  switch (dialect) {
    case Dialect::kChatCompletions:
      return dialect::chat::DecodeChatCompletions(body, limits);
    case Dialect::kCompletions:
      return dialect::completions::DecodeCompletions(body, limits);
    case Dialect::kMessages:
      return dialect::messages::DecodeMessages(body, use, limits);
    case Dialect::kResponses:
    case Dialect::kGemini:  // translated before
      break;
  }
  return MakeError(ErrorCode::kUnsupported, "service", "This dialect is not served.");
}

// The messages of a prompt that has them, else null.
std::vector<dialect::form::Message>* MessagesOf(CompletionRequest& request) {
  return std::get_if<std::vector<dialect::form::Message>>(&request.prompt);
}

int LongestMark(const CompletionRequest& request) {
  int ttl_seconds = request.tools_cache_ttl_seconds;
  if (const auto* messages = std::get_if<std::vector<dialect::form::Message>>(&request.prompt)) {
    for (const dialect::form::Message& message : *messages) {
      ttl_seconds = std::max(ttl_seconds, message.cache_ttl_seconds);
    }
  }
  return ttl_seconds;
}

}  // namespace

// The results of the disk step. They are shared with its thread, which may outlive this object.
struct CompletionStart::Lookup {
  Result<void> loaded;
  std::vector<ReasoningMemory::Found> found;
};

CompletionStart::CompletionStart(Service& service, const Service::StartArgs& args, Use use)
    : service_(service), args_(args), use_(use), tenant_(local::TenantOf(args.credential)) {
  if (use_ == Use::kCount) return;
  record_ = std::make_unique<LocalRecord>(LocalRecord::Args{
      .ledger = service.parts_.ledger,
      .dialect = args.answer_dialect.value_or(args.dialect),
      .request_id = args.request_id,
      .tenant = args.tenant.empty() ? tenant_ : args.tenant,
      .key = args.prompt && args.prompt->key != nullptr ? std::string_view(args.prompt->key->name)
                                                        : std::string_view(),
      .session = args.prompt ? SessionOf(args.prompt->fields) : std::string_view(),
      .prompt = args.named_prompt,
      .purpose = args.purpose,
      .caller_trace =
          args.prompt ? upstream::wire::TraceOfCaller(args.prompt->fields) : std::nullopt});
  if (service.draining_.load()) {
    Fail(MakeError(ErrorCode::kUnavailable, "service",
                   "The server is shutting down and takes no new requests."));
  }
}

CompletionStart::~CompletionStart() = default;

void CompletionStart::Fail(Error error) {
  next_ = Place::kNone;
  if (record_ && args_.has_next && IsOverload(error)) {
    record_->Drop();
  } else if (record_) {
    record_->OnRefused(error);
  }
  completion_ = std::move(error);
}

void CompletionStart::GoTo(Step step) {
  step_ = step;
  switch (step) {
    case Step::kLoad:
    case Step::kRemember:
    case Step::kRecall:
    case Step::kKeep:
      next_ = Place::kStore;
      break;
    case Step::kSubmit:
      next_ = local::LocalProvider::Compiles(request_) && use_ == Use::kAnswer ? Place::kCompile
                                                                               : Place::kRequest;
      break;
    default:
      next_ = Place::kRequest;
  }
}

void CompletionStart::Run() {
  KVGATE_CHECK(next_ == Place::kRequest || next_ == Place::kCompile, "no step to be run here");
  Result<void> done = RunStep();
  if (done) return;
  if (is_changed_ && !IsOverload(done.error())) return StartAsReceived();
  Fail(std::move(done).error());
}

void CompletionStart::StartAsReceived() {
  KVGATE_LOG(kDebug, "service", "request {}: its prepared prompt is refused; it goes as received",
             args_.request_id);
  is_as_received_ = true;
  is_changed_ = false;
  prompt_ = {};
  whole_ = {};
  is_windowed_ = false;
  draft_.reset();
  turn_.reset();
  request_ = {};
  plan_ = {};
  hooks_.clear();
  GoTo(Step::kDecode);
}

Result<void> CompletionStart::RunStep() {
  if (step_ == Step::kDecode) return Decode();
  if (step_ == Step::kPrepare) return Prepare();
  return use_ == Use::kCount ? Count() : Submit();
}

// Requests of the Responses dialect get a turn of their own, because they may continue from earlier
// answers. What is kept of them is what their callers said.
Result<void> CompletionStart::Decode() {
  if (args_.dialect != Dialect::kResponses) return Prepare();
  KVGATE_TRY(Responses::Draft draft,
             service_.responses_.Decode(
                 {.body = args_.body,
                  .tenant = tenant_,
                  .request_id = args_.request_id,
                  .use = use_ == Use::kCount ? Responses::Use::kCount : Responses::Use::kCreate,
                  .prompt = args_.named_prompt}));
  draft_ = std::make_shared<Responses::Draft>(std::move(draft));
  if (!draft_->needs_store()) return Prepare();
  GoTo(Step::kLoad);
  return {};
}

Result<Prompts::Prompt> CompletionStart::Ask(Prompts& prompts) const {
  static const upstream::wire::HeaderFields kNoFields;
  const Service::PromptArgs how =
      args_.prompt.value_or(Service::PromptArgs{.engine = Unchanged(), .fields = kNoFields});
  return prompts.Prepare({.body = whole_.empty() ? args_.body : std::string_view(whole_),
                          .layout = whole_.empty() ? how.layout : nullptr,
                          .endpoint = record_->endpoint(),
                          .tenant = record_->tenant(),
                          .upstream = how.engine,
                          .provider = prompt::kLocalProvider,
                          .key = how.key,
                          .fields = how.fields,
                          .credential = {},
                          .is_recalled = is_recalled_,
                          .is_fixed = is_as_received_});
}

// A response that is stored, or goes on from stored ones, is prepared with all of its turns in it.
// Returns false if there is no body that holds them.
bool CompletionStart::MakeWhole() {
  if (!draft_ || !(draft_->needs_store() || draft_->turn->shape.stored)) return true;
  std::vector<std::string_view> items;
  for (const auto* some : {&draft_->context, &draft_->turn->input}) {
    for (const dialect::responses::ResponsesItem& item : *some) items.push_back(item.json);
  }
  std::optional<std::string> whole = prompt::WholeBody(args_.body, items);
  if (whole) whole_ = *std::move(whole);
  return whole.has_value();
}

// Leaves out of a stored conversation what its session's window leaves out.
Result<void> CompletionStart::FitWindow() {
  const session::LocalModel model = service_.responses_.sessions().local_model();
  session::Sessions::ComposeArgs args{
      .body = args_.body, .context = model.context_tokens, .output_max = model.output_tokens};
  args.count = [this](std::string_view body) -> Result<int64_t> {
    KVGATE_TRY(const std::string counted,
               service_.CountTokens(
                   {.dialect = Dialect::kResponses, .body = body, .credential = args_.credential}));
    const auto json = nlohmann::json::parse(counted, nullptr, false);
    return json.is_object() ? json.value("input_tokens", int64_t{0}) : int64_t{0};
  };
  KVGATE_TRY(std::optional<std::string> body, service_.responses_.Window(*draft_, args));
  is_windowed_ = body.has_value();
  if (body) whole_ = *std::move(body);
  const std::string& compaction = draft_->turn->session->compaction;
  if (compaction != "none") compaction_ = compaction;
  return {};
}

// Prepares the prompt of a request that is answered.
Result<void> CompletionStart::Prepare() {
  Prompts* const prompts = service_.parts_.prompts;
  if (draft_ && whole_.empty()) KVGATE_TRY_VOID(FitWindow());
  const bool is_prepared = prompts != nullptr && use_ == Use::kAnswer;
  if (is_prepared && (!whole_.empty() || MakeWhole())) {
    KVGATE_TRY(prompt_, Ask(*prompts));
    if (prompt_.recall) {
      GoTo(Step::kRemember);
      return {};
    }
    is_changed_ = prompt_.body.has_value();
  }
  KVGATE_TRY_VOID(DecodePrepared());
  prompt_.body.reset();
  whole_ = {};
  return Compose();
}

Result<void> CompletionStart::DecodePrepared() {
  if (draft_) {
    if (is_changed_) return service_.responses_.DecodeRendered(*prompt_.body, *draft_);
    return is_windowed_ ? service_.responses_.DecodeRendered(whole_, *draft_) : Result<void>();
  }
  const auto use = use_ == Use::kCount ? dialect::messages::MessagesUse::kCount
                                       : dialect::messages::MessagesUse::kCreate;
  const std::string_view body = is_changed_ ? std::string_view(*prompt_.body) : args_.body;
  KVGATE_TRY(request_, DecodeAlone(args_.dialect, body, use, service_.parts_.limits));
  request_.dialect = args_.answer_dialect.value_or(request_.dialect);
  return {};
}

Result<void> CompletionStart::Compose() {
  if (draft_) {
    KVGATE_TRY(turn_, service_.responses_.Compose(std::move(*draft_)));
    draft_.reset();
    request_ = std::move(turn_->request);
  }
  if (record_) record_->OnRequest(request_);
  const bool any = args_.any_model && service_.local_ready_.load();
  KVGATE_TRY(local_, service_.Route(any ? service_.local_->id() : request_.model));
  if (record_) record_->OnModel(local_->id());
  if (MessagesOf(request_) != nullptr && service_.parts_.turns != nullptr &&
      local_->writes_reasoning()) {
    plan_ = service_.reasoning_.MakePlan(*MessagesOf(request_));
    AddReasoningHook();
  }
  GoTo(plan_.wanted.empty() ? Step::kSubmit : Step::kRecall);
  return {};
}

std::optional<std::chrono::milliseconds> CompletionStart::patience() const {
  if (step_ == Step::kRemember) return kRememberTime;
  if (step_ == Step::kKeep) return prompt_.write->patience;
  return std::nullopt;
}

std::function<void()> CompletionStart::StoreWork() {
  KVGATE_CHECK(next_ == Place::kStore, "no step that waits for the disk");
  if (step_ == Step::kRemember) return std::exchange(prompt_.recall, nullptr);
  if (step_ == Step::kKeep) {
    return [&prompts = *service_.parts_.prompts, write = *prompt_.write] { prompts.Commit(write); };
  }
  lookup_ = std::make_shared<Lookup>();
  if (step_ == Step::kLoad) {
    return [lookup = lookup_, draft = draft_, &responses = service_.responses_] {
      lookup->loaded = responses.Load(*draft);
    };
  }
  return [lookup = lookup_, tenant = tenant_, wanted = plan_.wanted,
          &reasoning = service_.reasoning_] { lookup->found = reasoning.Find(tenant, wanted); };
}

void CompletionStart::EndStore(const Result<void>& done) {
  if (step_ == Step::kRemember) {
    is_recalled_ = true;  // or else it counts as lost
    return GoTo(Step::kPrepare);
  }
  if (step_ == Step::kKeep) {
    service_.parts_.prompts->GoOut(*prompt_.write);
    next_ = Place::kNone;
    return;
  }
  const std::shared_ptr<Lookup> lookup = std::move(lookup_);
  if (step_ == Step::kLoad) {
    if (!done || !lookup->loaded) return Fail(done ? lookup->loaded.error() : done.error());
    return GoTo(Step::kPrepare);
  }
  // Without the reasoning the answer is as good, but its prompt may have to be computed again.
  if (done) {
    ReasoningMemory::Apply(std::move(lookup->found), *MessagesOf(request_));
  } else {
    KVGATE_LOG(kWarning, "service", "request {}: the reasoning before is left out: {}",
               args_.request_id, done.error().detail);
  }
  GoTo(Step::kSubmit);
}

// Keeps the reasoning of the answer. A caller that asks for a response not to be stored means its
// reasoning as well.
void CompletionStart::AddReasoningHook() {
  if (use_ == Use::kCount || (turn_ && !turn_->shape.stored)) return;
  const ReasoningMemory::KeepArgs keep{
      .tenant = tenant_, .id = args_.request_id, .before = plan_.end};
  hooks_.push_back([&reasoning = service_.reasoning_, keep, prefix = request_.answer_prefix](
                       const session::Answer& answer) -> Result<void> {
    for (const dialect::reply::ReplyChoice& choice : answer.choices) {
      ReasoningMemory::KeepArgs each = keep;
      if (choice.index() > 0) each.id += fmt::format("-{}", choice.index());
      each.message = choice.ToMessage();
      each.message.content.insert(0, prefix);
      reasoning.Keep(each);
    }
    return {};
  });
}

Result<void> CompletionStart::Count() {
  KVGATE_TRY(const int64_t num_tokens, local_->CountTokens(request_));
  count_ = request_.dialect == Dialect::kGemini ? dialect::gemini::EncodeTotalTokens(num_tokens)
           : args_.dialect == Dialect::kResponses
               ? dialect::responses::EncodeInputTokens(num_tokens)
               : dialect::messages::EncodeTokenCount(num_tokens);
  next_ = Place::kNone;
  return {};
}

dialect::reply::ReplyOptions CompletionStart::OptionsOf() const {
  return {
      .dialect = request_.dialect,
      .request_id = args_.request_id,
      .created_unix = static_cast<int64_t>(std::time(nullptr)),
      .model = local_->id(),
      .system_fingerprint = service_.parts_.system_fingerprint,
      .echo = request_.echo ? local_->PromptTexts(request_) : std::vector<std::string>(),
      .num_choices = static_cast<int>(request_.more_prompts.size() + 1) * request_.num_choices,
      .stream = request_.stream,
      .include_usage = request_.include_usage,
      .logprobs = request_.num_logprobs >= 0,
      .explain = args_.explain,
      .cache_ttl_seconds = LongestMark(request_),
      .thoughts = args_.thoughts,
      .response = turn_ ? turn_->shape : dialect::reply::ResponseShape(),
  };
}

// Logs once per conversation what its prompts go without: parts that the engine cannot take, which
// a header names with each answer, and values that are held back.
void CompletionStart::SayLosses() const {
  for (const std::string& what : request_.left_out) {
    if (!service_.notices_.IsFirst(tenant_, request_.prompt, what)) continue;
    KVGATE_LOG(kWarning, "service",
               "request {}: the local engine cannot take '{}': prompts of this conversation go "
               "without it",
               args_.request_id, what);
  }
  if (!prompt_.holds) return;
  if (!service_.notices_.IsFirst(tenant_, std::string_view(prompt_.conversation), kHeldStale))
    return;
  KVGATE_LOG(
      kWarning, "service",
      "request {}: no text of it can take the new values of lines that have left the prompt; "
      "the prompt keeps the earlier ones until one can",
      args_.request_id);
}

// Runs the request, without its oldest turns where they leave no room for the answer and the caller
// allows that.
Result<std::unique_ptr<local::EventStream>> CompletionStart::RunLocally() {
  std::vector<int32_t> cuts;
  if (prompt_.preparation) cuts = Prompts::CutsOf(*prompt_.preparation);
  local::LocalProvider::RunArgs run{.request = request_,
                                    .tenant = service_.prefixes_.SaltOf(tenant_),
                                    .logits_hash = args_.explain,
                                    .prompt_tokens_max = args_.prompt_tokens_max,
                                    .output = args_.output,
                                    .wake = args_.wake,
                                    .cuts = cuts};
  if (!turn_ || !turn_->truncates) return local_->Run(run);
  const int64_t context = local_->prompt_tokens_max();
  const int64_t usual = local_->default_max_tokens();
  run.prompt_tokens_max = local::RoomForPrompt(
      {.prompt_tokens_max = context,
       .caller_tokens_max = args_.prompt_tokens_max,
       .wanted = local::WantedTokens(request_, args_.output, usual > 0 ? usual : context)});
  auto stream = local_->Run(run);
  if (stream || stream.error().source != dialect::form::kContextLengthSource) return stream;
  const session::TruncateArgs truncate{
      .tokens_max = run.prompt_tokens_max,
      .tokens =
          [&](const dialect::form::Message& each) {
            return local::MessageTokens(local_->tokenizer(), each);
          },
      .count = [&](const CompletionRequest& request) { return local_->CountTokens(request); }};
  KVGATE_TRY(const auto truncated, session::Truncate(truncate, request_));
  if (truncated) {
    compaction_ = fmt::format("done;before={};after={}", truncated->before, truncated->after);
  }
  run.prompt_tokens_max = args_.prompt_tokens_max;
  return local_->Run(run);
}

// Submits the request to the engine and hands its record over to the completion.
Result<void> CompletionStart::Submit() {
  auto stream = RunLocally();
  if (!stream) return std::move(stream).error();
  SayLosses();
  record_->OnBody(args_.body);
  if (prompt_.preparation) {
    record_->OnPrepared(*service_.parts_.prompts, std::move(prompt_.preparation));
  }
  dialect::reply::ReplyOptions options = OptionsOf();
  const bool keeps = turn_ && (turn_->shape.stored || !turn_->conversation.empty());
  std::shared_ptr<session::SessionTurn> session = keeps ? turn_->session : nullptr;
  if (turn_) hooks_.push_back(service_.responses_.KeepAnswer(std::move(turn_), options));
  const int num_choices = options.num_choices;
  std::vector<std::string> left_out = request_.left_out;
  if (prompt_.holds) left_out.emplace_back(kHeldStale);
  completion_ = std::make_unique<Completion>(
      Completion::Parts{.stream = std::move(*stream),
                        .encoder = dialect::MakeReplyEncoder(std::move(options)),
                        .streaming = request_.stream,
                        .num_choices = num_choices,
                        .metrics = service_.parts_.metrics,
                        .record = std::move(record_),
                        .hooks = std::move(hooks_),
                        .must_keep = keeps,
                        .left_out = fmt::format("{}", fmt::join(left_out, ", ")),
                        .compaction = std::move(compaction_),
                        .session = std::move(session)});
  next_ = Place::kNone;
  // The engine works meanwhile, so that nothing waits for the disk before the answer begins.
  if (prompt_.write) GoTo(Step::kKeep);
  return {};
}

Result<std::unique_ptr<Completion>> CompletionStart::Take() { return std::move(completion_); }

Result<std::string> CompletionStart::TakeCount() {
  if (!completion_) return completion_.error();
  return std::move(count_);
}

}  // namespace kvgate::service
