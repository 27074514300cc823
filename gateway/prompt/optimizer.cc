#include "gateway/prompt/optimizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "gateway/prompt/rewrite/body_writer.h"
#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/history/conversation_memory.h"
#include "gateway/prompt/rewrite/draft.h"
#include "gateway/prompt/rewrite/pin.h"
#include "gateway/prompt/history/recognition.h"
#include "gateway/prompt/segment_memo.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/rewrite/stabilize.h"
#include "gateway/prompt/history/tenant_memory.h"

namespace kvgate::prompt {
namespace {

constexpr uint32_t Bit(Rule rule) { return uint32_t{1} << static_cast<uint32_t>(rule); }
constexpr uint32_t kStabilizeRules =
    Bit(Rule::kVolatileMoved) | Bit(Rule::kVolatileHeld) | Bit(Rule::kReminderKept);

constexpr size_t kParameterBytes = 256;
constexpr int64_t kDefaultTtlSeconds = 300;

// What changes neither a prompt nor how it is cached.
bool IsIncidental(std::string_view name) {
  static constexpr std::array<std::string_view, 19> kNames = {"model",
                                                              "stream",
                                                              "stream_options",
                                                              "metadata",
                                                              "user",
                                                              "store",
                                                              "seed",
                                                              "stop",
                                                              "temperature",
                                                              "max_tokens",
                                                              "top_p",
                                                              "top_k",
                                                              "stop_sequences",
                                                              "diagnostics",
                                                              "max_completion_tokens",
                                                              "n",
                                                              "safety_identifier",
                                                              "cache_control",
                                                              "max_output_tokens"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         name == "previous_response_id" || name == "conversation";
}

std::vector<SentParameter> ParametersOf(std::string_view body, const Outline& outline) {
  std::vector<SentParameter> parameters;
  for (const Parameter& parameter : outline.parameters) {
    if (IsIncidental(parameter.name)) continue;
    parameters.push_back({std::string(parameter.name),
                          std::string(parameter.value.In(body).substr(0, kParameterBytes)),
                          parameter.same});
  }
  return parameters;
}

// `longest`: of the markers that go out.
int64_t TtlOf(int64_t longest, const Plan& plan, const ledger::PriceRow* row) {
  const int64_t ttl = std::max<int64_t>(longest, plan.automatic ? plan.automatic->ttl_seconds : 0);
  if (ttl > 0) return ttl;
  return row != nullptr && row->rules.ttl_seconds > 0 ? row->rules.ttl_seconds : kDefaultTtlSeconds;
}

// A request too long to be remembered leaves what it was made of.
void DropBytes(Branch& branch) {
  SentSegments segments;
  SharedList<CallerForm> forms;
  for (SentSegment segment : branch.request.segments) {
    segment.bytes = nullptr;
    segments.push_back(std::move(segment));
  }
  for (CallerForm form : branch.forms) {
    form.caller = nullptr;
    form.carried.clear();
    form.left.clear();
    forms.push_back(std::move(form));
  }
  branch.request.segments = std::move(segments);
  branch.forms = std::move(forms);
  branch.bytes = branch.forms.size() * (sizeof(SentSegment) + sizeof(CallerForm));
}

}  // namespace

std::string_view ModeName(Mode mode) {
  static constexpr std::array<std::string_view, 3> kNames = {"observe", "pin", "stabilize"};
  return kNames[static_cast<size_t>(mode)];
}

std::optional<Mode> ParseMode(std::string_view name) {
  for (const Mode mode : {Mode::kObserve, Mode::kPin, Mode::kStabilize}) {
    if (ModeName(mode) == name) return mode;
  }
  return std::nullopt;
}

struct Prepared::State {
  std::shared_ptr<Branch> branch;
  std::shared_ptr<const Branch> before;
  bool goes_on = false;  // from all of it
  Identity conversation;
  Identity line;
  Identity shape;
  std::string provider;
  const ledger::PriceRow* row = nullptr;
  int64_t estimated_tokens = 0;
  int64_t ttl_seconds = 0;  // the longest of the markers that go out
  bool planned = false;
};

struct Optimizer::Impl {
  Impl(const Options& opts, std::unique_ptr<Planner> its_planner)
      : options(opts),
        planner(std::move(its_planner)),
        memo(opts.memo_entries),
        conversations(opts.memory_bytes / 4 * 3),
        tenants(opts.memory_bytes / 4) {}

  Prepared Prepare(const OptimizeArgs& args, bool dry);
  Plan MakePlan(const OptimizeArgs& args, const Outline& outline, const BodyWriter& writer,
                const Prepared::State& state, bool dry);
  void Remember(const OptimizeArgs& args, const Draft& draft, const Recognition& found,
                Prepared& prepared);
  void KeepForTenant(const Draft& draft, const TenantMemory::Scope& scope);

  const Options options;
  const std::unique_ptr<Planner> planner;
  SegmentMemo memo;
  ConversationMemory conversations;
  TenantMemory tenants;
};

Plan Optimizer::Impl::MakePlan(const OptimizeArgs& args, const Outline& outline,
                               const BodyWriter& writer, const Prepared::State& state, bool dry) {
  PlanArgs plan;
  plan.tenant = args.tenant;
  plan.upstream = args.upstream;
  plan.provider = args.provider;
  plan.model = outline.model;
  plan.endpoint = args.endpoint;
  plan.row = state.row;
  plan.ttl_supported = args.ttl_supported;
  plan.segments = writer.plan_segments();
  plan.automatic = outline.automatic;
  plan.caller_has_key = outline.Find("prompt_cache_key") != nullptr || args.has_conversation_header;
  plan.caller_has_options = outline.Find("prompt_cache_options") != nullptr ||
                            outline.Find("prompt_cache_retention") != nullptr;
  plan.conversation = state.line;
  plan.shape = state.shape;
  plan.first_of_conversation = state.before == nullptr;
  plan.now_us = args.now_us;
  return dry ? planner->Preview(plan) : planner->Make(plan);
}

void Optimizer::Impl::KeepForTenant(const Draft& draft, const TenantMemory::Scope& scope) {
  for (const DraftSegment& segment : draft.segments) {
    if (segment.now == nullptr || segment.now->place.section == Section::kMessages) break;
    const bool is_known = segment.before >= 0 || segment.bytes || segment.own;
    if (is_known || segment.now->content == Content::kMessageHead) continue;
    std::string assembled;
    tenants.KeepBytes(
        scope, segment.now->same,
        std::make_shared<const std::string>(BytesOf(draft.body, *segment.now, assembled)));
  }
  if (!draft.branch || draft.branch->tool_keys != draft.tool_keys) {
    tenants.KeepOrder(scope, draft.tool_keys);
  }
}

void Optimizer::Impl::Remember(const OptimizeArgs& args, const Draft& draft,
                               const Recognition& found, Prepared& prepared) {
  Prepared::State& state = *prepared.state;
  Branch& branch = *state.branch;
  SentRequest& request = branch.request;
  request.time_us = args.now_us;
  request.upstream = args.upstream;
  request.model = draft.outline.model;
  request.endpoint = args.endpoint;
  request.holds_history = found.holds_history;
  request.parameters = ParametersOf(args.body, draft.outline);
  request.ttl_seconds = TtlOf(state.ttl_seconds, prepared.plan, state.row);
  branch.line = state.line;
  branch.tool_keys = draft.tool_keys;
  branch.tools_order = ToolsOrder(state.before.get(), draft.tool_keys);
  branch.tail = draft.tail;
  branch.lines_move = draft.lines_move;
  if (branch.bytes > options.memory_bytes / 4) {
    DropBytes(branch);
  }
  // A turn that was taken back leaves its branch where it is: it may be gone on with.
  const std::span<const Identity> aliases =
      std::span(found.keys).subspan(std::min<size_t>(found.keys.size(), 1));
  conversations.Remember({.tenant = HashBytes(args.tenant, Domain::kConversation),
                          .conversation = state.conversation,
                          .aliases = aliases,
                          .branch = state.branch,
                          .replaced = state.goes_on ? state.before : nullptr});
}

Prepared Optimizer::Impl::Prepare(const OptimizeArgs& args, bool dry) {
  Prepared prepared;
  prepared.mode = args.mode;
  Result<Outline> read = ReadOutline(args.endpoint, args.body, memo);
  if (!read) {
    prepared.unreadable = read.error().ToString();
    return prepared;
  }
  const Outline& outline = *read;
  const Recognition found = Recognize({.outline = outline,
                                       .body = args.body,
                                       .tenant = args.tenant,
                                       .session = args.session,
                                       .upstream = args.upstream});
  const ConversationMemory::Line line = conversations.Find(found.keys, found.may_go_on());
  auto state = std::make_shared<Prepared::State>();
  const Chosen chosen = ChooseBranch(line.branches, outline, found);
  state->before = chosen.branch;
  state->goes_on = chosen.extends;
  state->conversation = line.conversation;
  state->shape = found.shape;
  state->line = state->before ? state->before->line : Chain(line.conversation, found.beginning);
  state->provider = args.provider;
  state->row = options.prices.Find(args.provider, outline.model);
  state->branch = std::make_shared<Branch>();
  state->planned = args.mode != Mode::kObserve;

  const bool stabilizes = args.mode == Mode::kStabilize;
  const uint32_t rules_off = args.rules_off | (stabilizes ? 0 : kStabilizeRules);
  Draft draft = MakeDraft(args.body, outline, state->before, rules_off);
  const TenantMemory::Scope scope = TenantMemory::ScopeOf(args.tenant, args.upstream);
  PairWithBranch(draft);
  if (stabilizes) {
    PairPastVolatile(draft);
    StabilizeSystem(draft, args.provider);
  }
  if (args.mode != Mode::kObserve) Pin(draft, tenants, scope);
  BodyWriter writer(draft, {.ttl_supported = args.ttl_supported, .edits = state->planned});
  if (state->planned) {
    prepared.plan = MakePlan(args, outline, writer, *state, dry);
  } else {
    prepared.plan.automatic = outline.automatic;
  }
  prepared.edits = writer.Write(prepared.plan);
  prepared.notes = std::move(draft.notes);
  prepared.conversation = {state->conversation, found.origin};
  prepared.first_of_conversation = state->before == nullptr;
  if (!prepared.edits.empty()) {
    const Span whole = {0, static_cast<uint32_t>(args.body.size())};
    prepared.body = ApplyEdits(args.body, prepared.edits, whole);
  }
  if (!prepared.plan.conversation_id.empty() && draft.Allows(Rule::kConversationId)) {
    prepared.headers.push_back(
        {std::string(prepared.plan.conversation_header), prepared.plan.conversation_id});
  }
  if (dry) return prepared;
  writer.Fill(*state->branch);
  state->estimated_tokens = writer.num_tokens();
  state->ttl_seconds = writer.ttl_seconds();
  prepared.state = std::move(state);
  Remember(args, draft, found, prepared);
  if (args.mode != Mode::kObserve) KeepForTenant(draft, scope);
  return prepared;
}

Optimizer::Optimizer(const Options& options)
    : Optimizer(options, Planner::Make(Planner::Options{})) {}
Optimizer::Optimizer(const Options& options, std::unique_ptr<Planner> planner)
    : impl_(std::make_unique<Impl>(options, std::move(planner))) {}
Optimizer::~Optimizer() = default;

Prepared Optimizer::Prepare(const OptimizeArgs& args) { return impl_->Prepare(args, false); }
Prepared Optimizer::DryRun(const OptimizeArgs& args) const { return impl_->Prepare(args, true); }

Report Optimizer::Finish(const Prepared& prepared, const FinishArgs& args) {
  Report report;
  if (!prepared.state) return report;
  const Prepared::State& state = *prepared.state;
  impl_->conversations.Finish(state.branch, args.usage);
  std::optional<SentRequest> copy;
  const SentRequest* before =
      state.before ? &impl_->conversations.RequestOf(state.before, copy) : nullptr;
  report.prefix_break = FindBreak({.before = before,
                                   .now = state.branch->request,
                                   .row = state.row,
                                   .usage = args.usage,
                                   .provider = state.provider,
                                   .provider_reason = args.provider_reason,
                                   .keep_text = impl_->options.keep_text});
  if (!args.usage) return report;
  const bool tools_after_system = state.row != nullptr && state.row->rules.tools_after_system;
  const SentSegments& segments = state.branch->request.segments;
  report.attribution = Attribute(segments, *args.usage, tools_after_system);
  report.runs = RunsOf(segments, args.usage->input_tokens(), tools_after_system);
  if (!state.planned) return report;
  const ledger::TokenUsage& usage = *args.usage;
  impl_->planner->Learn(
      {.conversation = state.line,
       .shape = state.shape,
       .cache_read_tokens = usage.cache_read_tokens,
       .cache_write_tokens = usage.cache_write_tokens + usage.cache_write_1h_tokens,
       .input_tokens = usage.input_tokens(),
       .estimated_tokens = state.estimated_tokens,
       .now_us = args.now_us});
  return report;
}

void Optimizer::Abandon(const Prepared& prepared) {
  if (!prepared.state) return;
  const Prepared::State& state = *prepared.state;
  impl_->conversations.Withdraw(state.conversation, state.branch, state.before);
  if (state.planned) impl_->planner->Forget(state.line);
}

TenantMemory& Optimizer::tenants() { return impl_->tenants; }

}  // namespace kvgate::prompt
