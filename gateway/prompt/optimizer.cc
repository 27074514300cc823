#include "gateway/prompt/optimizer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <unordered_map>
#include <utility>

#include "base/digest.h"
#include "gateway/prompt/diagnose/direct_usage.h"
#include "gateway/prompt/diagnose/prompt_parts.h"
#include "gateway/prompt/diagnose/segment_names.h"
#include "gateway/prompt/history/conversation_memory.h"
#include "gateway/prompt/history/recognition.h"
#include "gateway/prompt/history/reference_index.h"
#include "gateway/prompt/history/sent_parameters.h"
#include "gateway/prompt/history/tenant_memory.h"
#include "gateway/prompt/parse/breakpoints.h"
#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/segment_memo.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/rewrite/body_writer.h"
#include "gateway/prompt/rewrite/draft.h"
#include "gateway/prompt/rewrite/pin.h"
#include "gateway/prompt/rewrite/prompt_shape.h"
#include "gateway/prompt/rewrite/refused_turns.h"
#include "gateway/prompt/rewrite/stabilize.h"
#include "gateway/prompt/rewrite/system_turn.h"
#include "gateway/prompt/rewrite/thinking.h"
#include "gateway/prompt/templates/templates.h"

namespace kvgate::prompt {

using history::Branch;
using history::TenantMemory;
using parse::Identity;
using parse::RequestLayout;
using parse::Rule;
using planner::Planner;
using rewrite::Draft;

namespace {

// A turn or two; reading this much anew takes about a tenth of a millisecond.
constexpr size_t kNewBytesMax = 16 * 1024;
constexpr int64_t kDefaultTtlSeconds = 300;
constexpr int64_t kMicroseconds = 1'000'000;  // of a second

// `longest` is the longest TTL in seconds of the segments' breakpoints.
int64_t TtlOf(int64_t longest, const planner::Plan& plan, const ledger::PriceRow* row) {
  const int64_t ttl = std::max<int64_t>(longest, plan.automatic ? plan.automatic->ttl_seconds : 0);
  if (ttl > 0) return ttl;
  return row != nullptr && row->rules.ttl_seconds > 0 ? row->rules.ttl_seconds : kDefaultTtlSeconds;
}

// A number that no other request has, in this process or another.
uint64_t MakeToken() {
  static const uint64_t seed = RandomSeed();
  static std::atomic<uint64_t> count{0};
  const std::array<uint64_t, 2> name = {seed, ++count};
  return std::max<uint64_t>(1, Xxh3(std::as_bytes(std::span(name))).first);
}

// A conversation keeps the key that it was given, also when the planner does not remember it.
void KeepKey(const Branch& before, planner::Plan& plan) {
  for (const history::SentParameter& parameter : before.request.parameters) {
    std::string key;
    if (parameter.is_ours && parse::DecodeString(parameter.value, key)) {
      plan.prompt_cache_key = std::move(key);
    }
  }
}

bool BindsThinking(const RequestLayout& layout, const ledger::PriceRow* row) {
  return layout.endpoint == dialect::form::Endpoint::kMessages && row != nullptr &&
         row->binds_thinking;
}

bool HasEdit(const Prepared& prepared, Rule rule) {
  return std::any_of(prepared.edits.begin(), prepared.edits.end(),
                     [&](const parse::Edit& edit) { return edit.rule == rule; });
}

// What is known of a request's conversation before anything is decided.
struct Known {
  history::Recognition found;
  std::vector<Identity> keys = {};                 // Recognition::LookedUp
  history::ConversationMemory::Branches branches;  // of all conversations that it may go on
  history::Chosen chosen;
  bool goes_on = false;  // its conversation has begun
  history::Past::Standing standing = history::Past::Standing::kUnknown;
};

// The mode and rules that a request is prepared with.
struct Terms {
  const ledger::PriceRow* row = nullptr;  // of the model; null: it is not known
  Mode mode = Mode::kObserve;
  uint32_t rules_off = 0;
  bool is_lost = false;
  bool joins = false;  // the conversation began elsewhere: its turns go on as received
  ledger::SystemTurn system_turn = ledger::SystemTurn::kNone;
};

bool HoldsThinking(const RequestLayout& layout) {
  return std::any_of(layout.segments.begin(), layout.segments.end(),
                     parse::IsThinking<parse::Segment>);
}

// Leaves out the thinking behind the first change of what its conversation has sent, because the
// provider refuses thinking whose prefix is not the one that it was made with. Where it is not
// known what was sent, all of it goes, unless the conversation began elsewhere: it has had more
// answers than one, and goes on as received. Returns what the draft does to that prefix.
history::Rewrite LeaveVoidThinking(const Terms& terms, Draft& draft) {
  if (!draft.branch && terms.joins && history::CountAnswers(draft.layout) > 1) {
    return history::Rewrite::kNone;
  }
  const rewrite::BodyWriter writer(draft, {});
  size_t first = draft.branch ? writer.FirstChange() : 0;
  // What stood in front of an answer to a request that is not known is not known either.
  if (draft.branch && !history::Follows(*draft.branch, draft.layout)) {
    const auto is_new = [](const rewrite::DraftSegment& segment) {
      return segment.before < 0 && !segment.dropped && segment.now != nullptr &&
             segment.now->place.section == parse::Section::kMessages;
    };
    const auto found = std::find_if(draft.segments.begin(), draft.segments.end(), is_new);
    first = std::min(first, static_cast<size_t>(found - draft.segments.begin()));
  }
  if (first == draft.segments.size()) return history::Rewrite::kNone;
  history::Rewrite rewrite = history::Rewrite::kNone;
  if (draft.branch) {
    Branch now;
    writer.Fill(now);
    rewrite = history::RewriteOf(*draft.branch, now);
  }
  if (rewrite::LeaveThinkingOut(draft, first)) {
    draft.notes.push_back("thinking behind segment " + std::to_string(first) +
                          " is left out: it may have been made behind another prefix");
  }
  return rewrite;
}

// Says how many lines the draft holds, and for how long.
void NoteHeld(const OptimizeArgs& args, const Draft& draft, const Branch* before, Branch& now,
              Prepared& prepared) {
  if (draft.num_held == 0 || before == nullptr) return;
  now.held_since_us = before->held_since_us != 0 ? before->held_since_us : before->request.time_us;
  prepared.held_stale =
      HeldStale{.num_lines = draft.num_held,
                .seconds = std::max<int64_t>(0, args.now_us - now.held_since_us) / kMicroseconds};
}

// Returns true if an edit changes more than where the provider's cache entries end.
bool ChangesPrefix(const Prepared& prepared) {
  return std::any_of(prepared.edits.begin(), prepared.edits.end(), [](const parse::Edit& edit) {
    return (parse::Bit(edit.rule) & parse::kPrefixKeepingRules) == 0;
  });
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

void AddHeaders(const Draft& draft, Prepared& prepared) {
  if (!prepared.plan.conversation_id.empty() && draft.Allows(Rule::kConversationId)) {
    prepared.headers.push_back(
        {std::string(prepared.plan.conversation_header), prepared.plan.conversation_id});
  }
  if (prepared.system_turn == ledger::SystemTurn::kClearAt) {
    prepared.headers.push_back(
        {std::string(rewrite::kBetaHeader), std::string(rewrite::kClearAtBeta)});
  }
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
  bool edits = false;       // its mode may change the body
  bool planned = false;
  uint64_t plan = 0;  // planner::Plan::id
  diagnose::Treatment treatment;
  std::optional<diagnose::Received> received;  // absent: it goes out so, or has no price
};

struct Optimizer::Impl {
  Impl(const Options& opts, std::unique_ptr<Planner> its_planner)
      : options(opts),
        planner(std::move(its_planner)),
        memo(opts.memo_entries),
        conversations(opts.memory_bytes / 4 * 3),
        tenants(opts.memory_bytes / 4),
        templates(opts.templates) {}

  Prepared Prepare(const OptimizeArgs& args, bool dry);
  Prepared PrepareRead(const OptimizeArgs& args, const RequestLayout& layout, bool dry);
  Known Know(const OptimizeArgs& args, const RequestLayout& layout) const;
  Terms TermsOf(const OptimizeArgs& args, const RequestLayout& layout, const Known& known) const;
  ledger::SystemTurn SystemTurnOf(const OptimizeArgs& args, const RequestLayout& layout,
                                  const Terms& terms, const Known& known) const;
  Draft MakeDraft(const OptimizeArgs& args, const RequestLayout& layout, const Terms& terms,
                  const std::shared_ptr<const Branch>& before, rewrite::Learning& learning,
                  bool dry);
  std::shared_ptr<Prepared::State> MakeState(const OptimizeArgs& args, const Known& known,
                                             const Terms& terms) const;
  void Keep(const Known& known, Prepared& prepared) const;
  void Restore(const Restored& restored);
  planner::Plan MakePlan(const OptimizeArgs& args, const RequestLayout& layout,
                         const rewrite::BodyWriter& writer, const Prepared::State& state, bool dry);
  void Remember(const OptimizeArgs& args, const Draft& draft, const history::Recognition& found,
                Prepared& prepared);
  void KeepForTenant(const Draft& draft, const TenantMemory::Scope& scope);

  const Options options;
  const std::unique_ptr<Planner> planner;
  parse::SegmentMemo memo;
  diagnose::SegmentNames names;
  diagnose::DirectCaches direct;
  history::ConversationMemory conversations;
  history::ReferenceIndex references;
  TenantMemory tenants;
  templates::Templates templates;
  rewrite::RefusedTurns refused;
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
  request.parameters = history::ParametersOf(args.body, draft.layout);
  if (HasEdit(prepared, Rule::kPromptCacheKey)) {
    const std::string& key = prepared.plan.prompt_cache_key;
    request.parameters.push_back({.name = "prompt_cache_key",
                                  .value = parse::QuotedJson(key),
                                  .same = parse::HashBytes(key, parse::Domain::kSame),
                                  .is_ours = true});
  }
  // The engine evicts what it needs room for, whatever its age.
  const bool has_ttl = args.provider != kLocalProvider;
  if (has_ttl) request.ttl_seconds = TtlOf(state.ttl_seconds, prepared.plan, state.row);
  branch.token = MakeToken();
  branch.conversation = state.conversation;
  branch.origin = state.before ? state.before->origin : branch.token;
  branch.line = state.line;
  if (found.first_turn) {
    auto turn = std::make_shared<history::FirstTurn>(*found.first_turn);
    if (found.continues) turn->kin.clear();
    branch.bytes += turn->num_bytes();
    branch.first_turn = std::move(turn);
  }
  branch.tool_keys = draft.tool_keys;
  branch.tools_order = rewrite::ToolsOrder(state.before.get(), draft.tool_keys);
  branch.tail = draft.tail;
  branch.lines_move = draft.lines_move;
  branch.slots = state.before ? draft.slots : rewrite::SlotsOf(draft);
  if (branch.bytes > options.memory_bytes / 4) {
    history::DropBytes(branch);
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
  const Result<RequestLayout> layout =
      parse::ReadRequestLayout(args.endpoint, args.body, memo, args.model);
  if (layout) return PrepareRead(args, *layout, dry);
  Prepared prepared;
  prepared.mode = args.mode;
  prepared.unreadable = layout.error().ToString();
  Write(args, prepared);
  return prepared;
}

Known Optimizer::Impl::Know(const OptimizeArgs& args, const RequestLayout& layout) const {
  Known known{.found = history::Recognize({.layout = layout,
                                           .body = args.body,
                                           .tenant = args.tenant,
                                           .session = args.session,
                                           .upstream = args.upstream}),
              .branches = {},
              .chosen = {}};
  known.keys = known.found.LookedUp();
  if (known.found.may_go_on()) known.branches = conversations.Find(known.keys);
  if (args.read != nullptr) history::AddUnknown(*args.read, known.branches);
  known.chosen = history::ChooseBranch(known.branches, args.body, layout, known.found);
  // A request that leaves its history to the provider goes on by definition. One that begins afresh
  // under a name may be any of its conversations, all of which have to be known to tell which.
  known.goes_on = !known.found.holds_history || history::IsUnderWay(layout);
  const bool may_be_past = !args.begins_anew && (known.goes_on || !known.found.by_content());
  if (options.past != nullptr && may_be_past && !history::IsNext(known.chosen, layout)) {
    known.standing = options.past->Find({known.keys, known.branches, !args.is_recalled});
  }
  return known;
}

Terms Optimizer::Impl::TermsOf(const OptimizeArgs& args, const RequestLayout& layout,
                               const Known& known) const {
  using Standing = history::Past::Standing;
  Terms terms{.row = options.prices.Find(args.provider, layout.model),
              .mode = args.mode,
              .rules_off = args.rules_off};
  if (const Branch* before = known.chosen.branch.get()) {
    terms.mode = before->mode;
    terms.rules_off = before->rules_off;
    terms.is_lost = before->is_lost || (before->is_restored && !history::Follows(*before, layout));
  } else if (options.past != nullptr) {
    terms.is_lost = known.goes_on && (known.standing == Standing::kLost ||
                                      (known.standing == Standing::kKept && args.is_recalled));
    terms.joins = known.found.holds_history && known.goes_on;
    if (!options.past->CanKeep()) terms.mode = Mode::kObserve;
  }
  if (terms.is_lost || args.is_fixed) terms.mode = Mode::kObserve;
  terms.system_turn = SystemTurnOf(args, layout, terms, known);
  return terms;
}

// A conversation keeps what it began with, as long as its model and upstream take it; one that is
// new to its name while it goes on, what that name has had.
ledger::SystemTurn Optimizer::Impl::SystemTurnOf(const OptimizeArgs& args,
                                                 const RequestLayout& layout, const Terms& terms,
                                                 const Known& known) const {
  const Branch* before = known.chosen.branch.get();
  if (before == nullptr && terms.joins && !known.found.by_content() && !known.branches.empty()) {
    before = known.branches.front().get();
  }
  const bool is_kept = before != nullptr && before->request.model == layout.model;
  const bool may_be = terms.mode == Mode::kStabilize && (!terms.joins || is_kept) &&
                      !args.no_system_turn &&
                      (terms.rules_off & parse::Bit(Rule::kSystemTurn)) == 0;
  if (!may_be) return ledger::SystemTurn::kNone;
  ledger::SystemTurn turn = rewrite::SystemTurnOf(terms.row, args.endpoint);
  if (is_kept) {
    turn = rewrite::LesserOf(turn, before->system_turn);
  }
  return refused.LeftOf(args.upstream, layout.model, turn);
}

Draft Optimizer::Impl::MakeDraft(const OptimizeArgs& args, const RequestLayout& layout,
                                 const Terms& terms, const std::shared_ptr<const Branch>& before,
                                 rewrite::Learning& learning, bool dry) {
  const bool stabilizes = terms.mode == Mode::kStabilize;
  const bool is_restored = before != nullptr && before->is_restored;
  Draft draft = rewrite::MakeDraft(
      args.body, layout, is_restored ? history::FillFrom(*before, args.body, layout) : before,
      terms.rules_off | (stabilizes ? 0 : parse::kStabilizeRules));
  draft.binds_thinking = terms.mode != Mode::kObserve && BindsThinking(layout, terms.row) &&
                         draft.Allows(Rule::kThinkingRemoved);
  draft.system_turn = terms.system_turn;
  draft.is_dry = dry;
  rewrite::PairWithBranch(draft);
  if (terms.joins) return draft;
  if (stabilizes) {
    if (!draft.branch) draft.slots = templates.Known(learning.scope, !dry);
    rewrite::AlignPastVolatile(draft, learning);
    rewrite::StabilizePrefix(draft, learning, args.provider);
  }
  if (terms.mode != Mode::kObserve) {
    rewrite::Pin(draft, tenants, TenantMemory::ScopeOf(args.tenant, args.upstream));
  }
  return draft;
}

// Fills in what is known before the rules decide.
std::shared_ptr<Prepared::State> Optimizer::Impl::MakeState(const OptimizeArgs& args,
                                                            const Known& known,
                                                            const Terms& terms) const {
  auto state = std::make_shared<Prepared::State>();
  state->before = known.chosen.branch;
  state->goes_on = known.chosen.extends;
  state->conversation = state->before ? state->before->conversation : known.found.keys.front();
  state->line = state->before ? state->before->line
                              : parse::Chain(state->conversation, known.found.beginning);
  state->provider = args.provider;
  state->row = terms.row;
  state->branch = std::make_shared<Branch>();
  // A request that may not be changed leaves its conversation's mode alone.
  state->branch->mode = args.is_fixed && state->before ? state->before->mode : terms.mode;
  state->branch->rules_off = terms.rules_off;
  state->branch->system_turn =
      args.is_fixed && state->before ? state->before->system_turn : terms.system_turn;
  state->branch->is_lost = terms.is_lost;
  state->edits = terms.mode != Mode::kObserve;
  state->planned = state->edits && args.provider != kLocalProvider;
  state->treatment = {.can_change = !args.is_fixed,
                      .pins = state->edits,
                      .stabilizes = terms.mode == Mode::kStabilize,
                      .rules_off = terms.rules_off};
  return state;
}

Prepared Optimizer::Impl::PrepareRead(const OptimizeArgs& args, const RequestLayout& layout,
                                      bool dry) {
  Prepared prepared;
  const Known known = Know(args, layout);
  const bool asks = !args.is_recalled && (!dry || args.read != nullptr);
  if (known.standing == history::Past::Standing::kKept && asks) {
    prepared.recall = known.keys;
    for (const auto& branch : known.branches) prepared.known.push_back(branch->token);
    return prepared;
  }
  const Terms terms = TermsOf(args, layout, known);
  prepared.mode = terms.mode;
  prepared.model = layout.model;
  prepared.is_lost = terms.is_lost;
  std::shared_ptr<Prepared::State> state = MakeState(args, known, terms);
  rewrite::Learning learning{templates, templates::Templates::ScopeOf(args.tenant, layout.model)};
  Draft draft = MakeDraft(args, layout, terms, state->before, learning, dry);
  state->shape = rewrite::ShapeOf(draft, known.found);
  if (draft.binds_thinking && HoldsThinking(layout)) {
    prepared.rewrite = LeaveVoidThinking(terms, draft);
  }
  rewrite::BodyWriter writer(draft, {.ttl_supported = args.ttl_supported, .edits = state->edits});
  if (state->planned) {
    prepared.plan = MakePlan(args, layout, writer, *state, dry);
    if (state->before) KeepKey(*state->before, prepared.plan);
    state->plan = prepared.plan.id;
    state->treatment.plan = prepared.plan.reason;
  } else {
    prepared.plan.automatic = layout.automatic;
  }
  prepared.edits = writer.Write(prepared.plan);
  const bool may_lose_thinking = !args.is_fixed && draft.Allows(Rule::kThinkingRemoved);
  if (terms.is_lost && may_lose_thinking && BindsThinking(layout, state->row)) {
    prepared.edits = rewrite::RemoveThinking(layout);
  }
  NoteHeld(args, draft, state->before.get(), *state->branch, prepared);
  prepared.system_turn = terms.system_turn;
  prepared.has_system_turn = rewrite::HasSystemTurn(draft);
  prepared.notes = std::move(draft.notes);
  prepared.conversation = {state->conversation, known.found.origin};
  prepared.first_of_conversation = state->before == nullptr;
  Write(args, prepared);
  AddHeaders(draft, prepared);
  if (dry) return prepared;
  writer.Fill(*state->branch);
  state->estimated_tokens = writer.num_tokens();
  state->ttl_seconds = writer.ttl_seconds();
  prepared.state = std::move(state);
  if (prepared.state->planned) {
    prepared.state->received = diagnose::ReceivedOf({.layout = layout,
                                                     .body = args.body,
                                                     .tenant = args.tenant,
                                                     .upstream = args.upstream,
                                                     .row = terms.row,
                                                     .plan = prepared.plan});
  }
  templates.Learn(learning.scope, learning.lesson);
  Remember(args, draft, known.found, prepared);
  if (terms.mode != Mode::kObserve) {
    KeepForTenant(draft, TenantMemory::ScopeOf(args.tenant, args.upstream));
    Keep(known, prepared);
  }
  const bool goes_on = prepared.state->before && known.found.holds_history;
  if (goes_on && prepared.rewrite == history::Rewrite::kNone) {
    prepared.rewrite = history::RewriteOf(*prepared.state->before, *prepared.state->branch);
  }
  return prepared;
}

// Says what has to be kept of the request: nothing of a lone question that goes out as received,
// because its conversation, if there is one, can go on from what its caller says.
void Optimizer::Impl::Keep(const Known& known, Prepared& prepared) const {
  const history::Recognition& found = known.found;
  const Prepared::State& state = *prepared.state;
  const bool is_lone = state.before == nullptr && !found.continues &&
                       state.branch->tool_keys.empty() && !ChangesPrefix(prepared);
  if (options.past == nullptr || (is_lone && found.by_content())) return;
  (is_lone ? prepared.lone : prepared.branch) = state.branch;
  if (state.goes_on) prepared.before = state.before;
  prepared.instead = history::TokensWithin(prepared.before.get(), known.branches);
  prepared.keys = found.keys;
  if (!prepared.keys.empty()) prepared.keys.front() = state.conversation;
}

void Optimizer::Impl::Restore(const Restored& restored) {
  if (restored.keys.empty()) return;
  conversations.Restore({.tenant = parse::HashBytes(restored.tenant, parse::Domain::kConversation),
                         .keys = restored.keys,
                         .branches = restored.branches});
}

Optimizer::Optimizer(const Options& options)
    : Optimizer(options, Planner::Make(Planner::Options{})) {}
Optimizer::Optimizer(const Options& options, std::unique_ptr<Planner> planner)
    : impl_(std::make_unique<Impl>(options, std::move(planner))) {}
Optimizer::~Optimizer() = default;

Result<RequestLayout> Optimizer::ReadLayout(dialect::form::Endpoint endpoint, std::string_view body,
                                            std::string_view model) {
  return parse::ReadRequestLayout(endpoint, body, impl_->memo, model);
}

std::optional<RequestLayout> Optimizer::ReadKnownLayout(dialect::form::Endpoint endpoint,
                                                        std::string_view body,
                                                        std::string_view model) {
  return parse::ReadKnownLayout(endpoint, body, impl_->memo, kNewBytesMax, model);
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
  // Stabilize could have changed this request, and has not.
  const bool may_save = state.treatment.can_change && !state.treatment.stabilizes;
  if (before != nullptr && reference.same_conversation && may_save) {
    report.slot_losses = diagnose::FindSlotLosses({.before = *before,
                                                   .now = state.branch->request,
                                                   .found = report.prefix_break,
                                                   .input_tokens = args.usage->input_tokens(),
                                                   .cached_tokens = args.usage->cache_read_tokens});
    report.branch = state.branch;
  }
  const bool tools_after_system = state.row != nullptr && state.row->rules.tools_after_system;
  const history::SentSegments& segments = state.branch->request.segments;
  const diagnose::AttributeArgs attribute{.segments = segments,
                                          .usage = *args.usage,
                                          .tools_after_system = tools_after_system,
                                          .runs = args.counted};
  const diagnose::Attributed attributed = diagnose::AttributeSegments(attribute);
  report.attribution = diagnose::SumBySource(attribute, attributed);
  report.runs = diagnose::RunsOf(attribute, attributed);
  report.parts = diagnose::PartsOf(attribute, attributed, impl_->names);
  report.is_counted = attributed.is_counted;
  report.prompt = diagnose::PromptIdOf(segments);
  report.ttl_seconds = state.branch->request.ttl_seconds;
  if (state.received) {
    report.direct = diagnose::DirectUsage({.received = *state.received,
                                           .now = *state.branch,
                                           .before = reference.branch.get(),
                                           .usage = *args.usage,
                                           .now_us = args.now_us},
                                          impl_->direct);
  }
  if (!state.planned) return report;
  const ledger::reply::TokenUsage& usage = *args.usage;
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

std::vector<int32_t> Optimizer::CutsOf(const Prepared& prepared) {
  // Finding where a part ends may take a rendering of the prompt.
  constexpr size_t kCutsMax = 16;
  if (!prepared.state) return {};
  return diagnose::CutsOf(prepared.state->branch->request.segments, kCutsMax);
}

void Optimizer::Abandon(const Prepared& prepared) {
  if (!prepared.state) return;
  const Prepared::State& state = *prepared.state;
  impl_->conversations.Withdraw(state.conversation, state.branch, state.before);
  if (state.planned) impl_->planner->Forget(state.line, state.plan);
}

std::string Optimizer::NoteRefused(const Prepared& prepared) {
  using ledger::SystemTurn;
  if (!prepared.state) return "";
  const history::SentRequest& request = prepared.state->branch->request;
  const bool is_header = prepared.system_turn == SystemTurn::kClearAt && !prepared.has_system_turn;
  const SystemTurn left = is_header ? SystemTurn::kPlain : SystemTurn::kNone;
  if (!impl_->refused.Note(request.upstream, request.model, left)) return "";
  const std::string what = is_header ? "the beta header " + std::string(rewrite::kClearAtBeta)
                                     : std::string("turns of the system's own behind tool results");
  return "upstream '" + request.upstream + "' refused " + what + " for '" + request.model +
         "' (400) and took the same request without: there are none for that model until a restart";
}

void Optimizer::Restore(const Restored& restored) { impl_->Restore(restored); }

TenantMemory& Optimizer::tenants() { return impl_->tenants; }
templates::Templates& Optimizer::templates() { return impl_->templates; }
const templates::Templates& Optimizer::templates() const { return impl_->templates; }

}  // namespace kvgate::prompt
