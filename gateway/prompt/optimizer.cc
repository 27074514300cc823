#include "gateway/prompt/optimizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "gateway/prompt/history/conversation_memory.h"
#include "gateway/prompt/history/recognition.h"
#include "gateway/prompt/history/reference_index.h"
#include "gateway/prompt/history/tenant_memory.h"
#include "gateway/prompt/parse/breakpoints.h"
#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/segment_memo.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/rewrite/body_writer.h"
#include "gateway/prompt/rewrite/draft.h"
#include "gateway/prompt/rewrite/pin.h"
#include "gateway/prompt/rewrite/stabilize.h"

namespace kvgate::prompt {

using history::Branch;
using history::TenantMemory;
using parse::Identity;
using parse::RequestLayout;
using parse::Rule;
using planner::Planner;
using rewrite::Draft;

namespace {

constexpr uint32_t Bit(Rule rule) { return uint32_t{1} << static_cast<uint32_t>(rule); }
constexpr uint32_t kStabilizeRules =
    Bit(Rule::kVolatileMoved) | Bit(Rule::kVolatileHeld) | Bit(Rule::kReminderKept);

constexpr size_t kParameterBytes = 256;
// A turn or two; reading this much anew takes about a tenth of a millisecond.
constexpr size_t kNewBytesMax = 16 * 1024;
constexpr std::string_view kEngine = "local";  // the provider whose prompts no mode changes
constexpr int64_t kDefaultTtlSeconds = 300;

// These parameters affect neither the prompt nor its caching.
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

std::vector<history::SentParameter> ParametersOf(std::string_view body,
                                                 const RequestLayout& layout) {
  std::vector<history::SentParameter> parameters;
  for (const parse::Parameter& parameter : layout.parameters) {
    if (IsIncidental(parameter.name)) continue;
    parameters.push_back({parameter.name,
                          std::string(parameter.value.In(body).substr(0, kParameterBytes)),
                          parameter.same});
  }
  return parameters;
}

// `longest` is the longest TTL in seconds of the segments' breakpoints.
int64_t TtlOf(int64_t longest, const planner::Plan& plan, const ledger::PriceRow* row) {
  const int64_t ttl = std::max<int64_t>(longest, plan.automatic ? plan.automatic->ttl_seconds : 0);
  if (ttl > 0) return ttl;
  return row != nullptr && row->rules.ttl_seconds > 0 ? row->rules.ttl_seconds : kDefaultTtlSeconds;
}

// Drops the bytes of a request that is too long to be remembered, but keeps its structure.
void DropBytes(Branch& branch) {
  history::SentSegments segments;
  parse::SharedList<history::CallerForm> forms;
  for (history::SentSegment segment : branch.request.segments) {
    segment.bytes = nullptr;
    segments.push_back(std::move(segment));
  }
  for (history::CallerForm form : branch.forms) {
    form.caller = nullptr;
    form.carried.clear();
    form.left.clear();
    forms.push_back(std::move(form));
  }
  branch.request.segments = std::move(segments);
  branch.forms = std::move(forms);
  branch.bytes = branch.forms.size() * (sizeof(history::SentSegment) + sizeof(history::CallerForm));
}

bool HasEdit(const Prepared& prepared, Rule rule) {
  return std::any_of(prepared.edits.begin(), prepared.edits.end(),
                     [&](const parse::Edit& edit) { return edit.rule == rule; });
}

// Adds the imposed edits and makes the body that all edits leave.
void Write(const OptimizeArgs& args, Prepared& prepared) {
  if (!args.imposed.empty()) {
    prepared.edits.insert(prepared.edits.end(), args.imposed.begin(), args.imposed.end());
    parse::SortEdits(prepared.edits);
  }
  if (prepared.edits.empty()) return;
  const parse::Span whole = {0, static_cast<uint32_t>(args.body.size())};
  prepared.body = parse::ApplyEdits(args.body, prepared.edits, whole);
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
  bool goes_on = false;                        // continues all of `before`
  std::vector<history::Candidate> candidates;  // if `before` is null, what may explain a miss
  Identity conversation;
  Identity line;
  Identity shape;
  std::string provider;
  const ledger::PriceRow* row = nullptr;
  int64_t estimated_tokens = 0;
  int64_t ttl_seconds = 0;  // the longest of the breakpoints that go out
  bool planned = false;
  uint64_t plan = 0;  // planner::Plan::id
  diagnose::Treatment treatment;
};

struct Optimizer::Impl {
  Impl(const Options& opts, std::unique_ptr<Planner> its_planner)
      : options(opts),
        planner(std::move(its_planner)),
        memo(opts.memo_entries),
        conversations(opts.memory_bytes / 4 * 3),
        tenants(opts.memory_bytes / 4) {}

  Prepared Prepare(const OptimizeArgs& args, bool dry);
  Prepared PrepareRead(const OptimizeArgs& args, const RequestLayout& layout, bool dry);
  planner::Plan MakePlan(const OptimizeArgs& args, const RequestLayout& layout,
                         const rewrite::BodyWriter& writer, const Prepared::State& state, bool dry);
  void Remember(const OptimizeArgs& args, const Draft& draft, const history::Recognition& found,
                Prepared& prepared);
  void KeepForTenant(const Draft& draft, const TenantMemory::Scope& scope);

  const Options options;
  const std::unique_ptr<Planner> planner;
  parse::SegmentMemo memo;
  history::ConversationMemory conversations;
  history::ReferenceIndex references;
  TenantMemory tenants;
};

planner::Plan Optimizer::Impl::MakePlan(const OptimizeArgs& args, const RequestLayout& layout,
                                        const rewrite::BodyWriter& writer,
                                        const Prepared::State& state, bool dry) {
  planner::PlanArgs plan;
  plan.tenant = args.tenant;
  plan.upstream = args.upstream;
  plan.provider = args.provider;
  plan.model = layout.model;
  plan.endpoint = args.endpoint;
  plan.row = state.row;
  plan.ttl_supported = args.ttl_supported;
  plan.segments = writer.plan_segments();
  plan.automatic = layout.automatic;
  plan.caller_has_key = layout.Find("prompt_cache_key") != nullptr || args.has_conversation_header;
  plan.caller_has_options = layout.Find("prompt_cache_options") != nullptr ||
                            layout.Find("prompt_cache_retention") != nullptr;
  plan.conversation = state.line;
  plan.shape = state.shape;
  plan.first_of_conversation = state.before == nullptr;
  plan.now_us = args.now_us;
  return dry ? planner->Preview(plan) : planner->Make(plan);
}

void Optimizer::Impl::KeepForTenant(const Draft& draft, const TenantMemory::Scope& scope) {
  for (const rewrite::DraftSegment& segment : draft.segments) {
    if (segment.now == nullptr || segment.now->place.section == parse::Section::kMessages) break;
    const bool is_known = segment.before >= 0 || segment.bytes || segment.own;
    if (is_known || segment.now->content == parse::Content::kMessageHead) continue;
    std::string assembled;
    tenants.KeepBytes(
        scope, segment.now->same,
        std::make_shared<const std::string>(parse::BytesOf(draft.body, *segment.now, assembled)));
  }
  if (!draft.branch || draft.branch->tool_keys != draft.tool_keys) {
    tenants.KeepOrder(scope, draft.tool_keys);
  }
}

void Optimizer::Impl::Remember(const OptimizeArgs& args, const Draft& draft,
                               const history::Recognition& found, Prepared& prepared) {
  Prepared::State& state = *prepared.state;
  Branch& branch = *state.branch;
  history::SentRequest& request = branch.request;
  request.time_us = args.now_us;
  request.upstream = args.upstream;
  request.model = draft.layout.model;
  request.endpoint = args.endpoint;
  request.holds_history = found.holds_history;
  request.parameters = ParametersOf(args.body, draft.layout);
  if (HasEdit(prepared, Rule::kPromptCacheKey)) {
    const std::string& key = prepared.plan.prompt_cache_key;
    request.parameters.push_back({.name = "prompt_cache_key",
                                  .value = parse::QuotedJson(key),
                                  .same = parse::HashBytes(key, parse::Domain::kSame),
                                  .is_ours = true});
  }
  request.ttl_seconds = TtlOf(state.ttl_seconds, prepared.plan, state.row);
  branch.line = state.line;
  branch.tool_keys = draft.tool_keys;
  branch.tools_order = rewrite::ToolsOrder(state.before.get(), draft.tool_keys);
  branch.tail = draft.tail;
  branch.lines_move = draft.lines_move;
  if (branch.bytes > options.memory_bytes / 4) {
    DropBytes(branch);
  }
  const Identity tenant = parse::HashBytes(args.tenant, parse::Domain::kConversation);
  if (!state.before && request.holds_history) {
    state.candidates = references.Find({.tenant = tenant,
                                        .conversation = state.conversation,
                                        .is_named = !found.by_content(),
                                        .request = request,
                                        .conversations = conversations});
  }
  references.Remember(tenant, state.conversation, request);
  // A branch whose turns were taken back is kept beside the new one, because it may still be
  // continued.
  const std::span<const Identity> aliases =
      std::span(found.keys).subspan(std::min<size_t>(found.keys.size(), 1));
  conversations.Remember({.tenant = tenant,
                          .conversation = state.conversation,
                          .aliases = aliases,
                          .branch = state.branch,
                          .replaced = state.goes_on ? state.before : nullptr});
}

Prepared Optimizer::Impl::Prepare(const OptimizeArgs& args, bool dry) {
  if (args.layout != nullptr) return PrepareRead(args, *args.layout, dry);
  const Result<RequestLayout> layout = parse::ReadRequestLayout(args.endpoint, args.body, memo);
  if (layout) return PrepareRead(args, *layout, dry);
  Prepared prepared;
  prepared.mode = args.mode;
  prepared.unreadable = layout.error().ToString();
  Write(args, prepared);
  return prepared;
}

Prepared Optimizer::Impl::PrepareRead(const OptimizeArgs& args, const RequestLayout& layout,
                                      bool dry) {
  Prepared prepared;
  prepared.mode = args.mode;
  const history::Recognition found = history::Recognize({.layout = layout,
                                                         .body = args.body,
                                                         .tenant = args.tenant,
                                                         .session = args.session,
                                                         .upstream = args.upstream});
  const history::ConversationMemory::Line line = conversations.Find(found.keys, found.may_go_on());
  auto state = std::make_shared<Prepared::State>();
  const history::Chosen chosen = history::ChooseBranch(line.branches, layout, found);
  state->before = chosen.branch;
  state->goes_on = chosen.extends;
  state->conversation = line.conversation;
  state->shape = found.shape;
  state->line =
      state->before ? state->before->line : parse::Chain(line.conversation, found.beginning);
  state->provider = args.provider;
  state->row = options.prices.Find(args.provider, layout.model);
  state->branch = std::make_shared<Branch>();
  state->planned = args.mode != Mode::kObserve;
  state->treatment = {.can_change = args.provider != kEngine,
                      .pins = state->planned,
                      .stabilizes = args.mode == Mode::kStabilize,
                      .rules_off = args.rules_off};

  const bool stabilizes = args.mode == Mode::kStabilize;
  const uint32_t rules_off = args.rules_off | (stabilizes ? 0 : kStabilizeRules);
  Draft draft = rewrite::MakeDraft(args.body, layout, state->before, rules_off);
  const TenantMemory::Scope scope = TenantMemory::ScopeOf(args.tenant, args.upstream);
  rewrite::PairWithBranch(draft);
  if (stabilizes) {
    rewrite::AlignPastVolatile(draft);
    rewrite::StabilizeSystem(draft, args.provider);
  }
  if (args.mode != Mode::kObserve) rewrite::Pin(draft, tenants, scope);
  rewrite::BodyWriter writer(draft, {.ttl_supported = args.ttl_supported, .edits = state->planned});
  if (state->planned) {
    prepared.plan = MakePlan(args, layout, writer, *state, dry);
    state->plan = prepared.plan.id;
    state->treatment.plan = prepared.plan.reason;
  } else {
    prepared.plan.automatic = layout.automatic;
  }
  prepared.edits = writer.Write(prepared.plan);
  prepared.notes = std::move(draft.notes);
  prepared.conversation = {state->conversation, found.origin};
  prepared.first_of_conversation = state->before == nullptr;
  Write(args, prepared);
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

Result<RequestLayout> Optimizer::ReadLayout(upstream::wire::Endpoint endpoint,
                                            std::string_view body) {
  return parse::ReadRequestLayout(endpoint, body, impl_->memo);
}

std::optional<RequestLayout> Optimizer::ReadKnownLayout(upstream::wire::Endpoint endpoint,
                                                        std::string_view body) {
  return parse::ReadKnownLayout(endpoint, body, impl_->memo, kNewBytesMax);
}

Prepared Optimizer::Prepare(const OptimizeArgs& args) { return impl_->Prepare(args, false); }
Prepared Optimizer::DryRun(const OptimizeArgs& args) const { return impl_->Prepare(args, true); }

Report Optimizer::Finish(const Prepared& prepared, const FinishArgs& args) {
  Report report;
  if (!prepared.state) return report;
  const Prepared::State& state = *prepared.state;
  impl_->conversations.Finish(state.branch, args.usage);
  std::optional<history::SentRequest> copy;
  const history::Reference reference =
      state.before ? history::Reference{.branch = state.before, .same_conversation = true}
                   : history::ChooseReference(state.candidates, state.branch->request);
  const history::SentRequest* before =
      reference.branch ? &impl_->conversations.RequestOf(reference.branch, copy) : nullptr;
  report.prefix_break = diagnose::FindBreak({.before = before,
                                             .same_conversation = reference.same_conversation,
                                             .now = state.branch->request,
                                             .row = state.row,
                                             .usage = args.usage,
                                             .provider = state.provider,
                                             .service_tier = args.service_tier,
                                             .treatment = state.treatment,
                                             .provider_reason = args.provider_reason,
                                             .keep_text = impl_->options.keep_text});
  if (!args.usage) return report;
  const bool tools_after_system = state.row != nullptr && state.row->rules.tools_after_system;
  const history::SentSegments& segments = state.branch->request.segments;
  report.attribution = diagnose::Attribute(segments, *args.usage, tools_after_system);
  if (state.provider == kEngine) {
    report.runs = diagnose::RunsOf(segments, args.usage->input_tokens(), tools_after_system);
  }
  if (!state.planned) return report;
  const ledger::TokenUsage& usage = *args.usage;
  impl_->planner->Learn(
      {.conversation = state.line,
       .plan = state.plan,
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
  if (state.planned) impl_->planner->Forget(state.line, state.plan);
}

TenantMemory& Optimizer::tenants() { return impl_->tenants; }

}  // namespace kvgate::prompt
