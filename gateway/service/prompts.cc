#include "gateway/service/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/prompt/history/recognition.h"
#include "gateway/prompt/parse/segment_memo.h"
#include "gateway/service/output_cap.h"

namespace kvgate::service {

using explicit_cache::CacheUse;
using prompt::parse::Rule;

namespace {

using prompt::Mode;
using upstream::wire::FindHeader;

std::string_view WithoutScheme(std::string_view credential) {
  constexpr std::string_view kScheme = "bearer ";
  if (credential.size() > kScheme.size() &&
      upstream::wire::SameName(credential.substr(0, kScheme.size()), kScheme)) {
    credential.remove_prefix(kScheme.size());
  }
  return credential;
}

// A JWT is three runs of base64url with dots between, and the first encodes a JSON object.
bool IsJwt(std::string_view text) {
  return text.starts_with("eyJ") && std::count(text.begin(), text.end(), '.') == 2;
}

// Returns true if the body asks for much reasoning, in any dialect's spelling.
bool ThinksHard(const prompt::parse::RequestLayout& layout, std::string_view body) {
  const auto says = [&](std::string_view name, std::initializer_list<std::string_view> words) {
    const prompt::parse::Parameter* parameter = layout.Find(name);
    return parameter != nullptr &&
           std::any_of(words.begin(), words.end(), [&](std::string_view word) {
             return parameter->value.In(body).find(word) != std::string_view::npos;
           });
  };
  const auto hard = {std::string_view("\"high\""), std::string_view("\"xhigh\""),
                     std::string_view("\"max\"")};
  return says("reasoning_effort", hard) || says("reasoning", hard) || says("output_config", hard) ||
         says("thinking", {"\"enabled\""});
}

// The local engine judges nobody's requests.
bool IsSubscribed(std::string_view provider, std::string_view credential,
                  const upstream::wire::HeaderFields& fields) {
  return provider != prompt::kLocalProvider && IsSubscription(credential, fields);
}

// Carries the decisions of Prepare to the ledger's record.
class Preparation final : public upstream::ExchangePreparation {
 public:
  Preparation(prompt::Optimizer& optimizer, const branches::KeptBranches& kept,
              std::string_view tenant, prompt::Prepared prepared, std::optional<CacheUse> cache)
      : optimizer_(optimizer),
        kept_(kept),
        tenant_(tenant),
        prepared_(std::move(prepared)),
        cache_(std::move(cache)) {}
  // A request that never finished was never answered, so the optimizer forgets it.
  ~Preparation() override { Abandon(); }
  void Abandon() {
    if (std::exchange(told_, true)) return;
    optimizer_.Abandon(prepared_);
    kept_.Withdraw(tenant_, prepared_);
  }
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  const prompt::Prepared& prepared() const { return prepared_; }
  // Absent: no explicit cache could hold its prefix.
  const std::optional<CacheUse>& cache() const { return cache_; }
  prompt::Report Finish(const prompt::Optimizer::FinishArgs& args) {
    told_ = true;
    prompt::Report report = optimizer_.Finish(prepared_, args);
    runs_ = report.runs;
    return report;
  }
  const std::vector<prompt::diagnose::SourceRun>& runs() const { return runs_; }

 private:
  prompt::Optimizer& optimizer_;
  const branches::KeptBranches kept_;
  const std::string tenant_;
  const prompt::Prepared prepared_;
  const std::optional<CacheUse> cache_;
  std::vector<prompt::diagnose::SourceRun> runs_;
  bool told_ = false;
};

void CountEdit(const prompt::parse::Edit& edit, std::vector<ledger::RecordEdit>& edits) {
  const std::string_view rule = prompt::parse::RuleName(edit.rule);
  for (ledger::RecordEdit& counted : edits) {
    if (counted.rule != rule) continue;
    ++counted.count;
    return;
  }
  edits.push_back({.rule = std::string(rule)});
}

ledger::RecordBreak ToRecord(const prompt::diagnose::PrefixBreak& found) {
  return {.cause = std::string(prompt::diagnose::BreakCauseName(found.cause)),
          .path = found.path,
          .volatile_kind = std::string(found.volatile_kind),
          .before = found.before,
          .after = found.after,
          .verdict = found.message,
          .reusable_tokens = found.reusable_tokens,
          .lost_tokens = found.lost_tokens,
          .lost_nanodollars = found.lost_nanodollars};
}

std::vector<prompt::diagnose::CountedRun> ToRuns(
    std::span<const dialect::form::PromptSegment> counted) {
  std::vector<prompt::diagnose::CountedRun> runs;
  for (const dialect::form::PromptSegment& segment : counted) {
    runs.push_back({.is_tools = segment.source == dialect::form::kToolsSource,
                    .is_results = segment.source ==
                                  prompt::parse::SourceName(prompt::parse::Source::kToolResults),
                    .last_element = segment.last_element,
                    .num_tokens = segment.num_tokens});
  }
  return runs;
}

ledger::RecordPlan PlanOf(const prompt::Prepared& prepared) {
  return {.reason = std::string(prepared.plan.reason),
          .expected_reuse = prepared.plan.expected_reuse,
          .num_breakpoints = static_cast<int64_t>(prepared.plan.breakpoints.size())};
}

}  // namespace

std::string_view SessionOf(const upstream::wire::HeaderFields& fields) {
  const std::string_view session = FindHeader(fields, "x-kvgate-session");
  return session.empty() ? FindHeader(fields, "session_id") : session;
}

uint32_t RuleBits(const std::vector<std::string>& names) {
  if (names.empty()) return 0;
  uint32_t bits = 0;
  for (size_t i = 0; i < prompt::parse::kNumRules; ++i) {
    const bool named = std::find(names.begin(), names.end(),
                                 prompt::parse::RuleName(static_cast<Rule>(i))) != names.end();
    if (named) bits |= uint32_t{1} << i;
  }
  return bits;
}

bool IsSubscription(std::string_view credential, const upstream::wire::HeaderFields& fields) {
  const std::string_view secret = WithoutScheme(credential);
  if (secret.starts_with("sk-ant-oat") || IsJwt(secret)) return true;
  if (!FindHeader(fields, "chatgpt-account-id").empty()) return true;
  return std::any_of(fields.begin(), fields.end(), [](const upstream::wire::HeaderField& field) {
    return upstream::wire::SameName(field.name, "anthropic-beta") &&
           field.value.find("oauth-") != std::string_view::npos;
  });
}

std::optional<dialect::form::Endpoint> PromptEndpoint(std::string_view name) {
  using dialect::form::Endpoint;
  for (const Endpoint endpoint :
       {Endpoint::kChatCompletions, Endpoint::kResponses, Endpoint::kMessages}) {
    if (ledger::EndpointName(endpoint) == name) return endpoint;
  }
  return std::nullopt;
}

prompt::OptimizeArgs Prompts::ArgsOf(const Args& args) const {
  std::string_view mode = args.upstream.mode;
  uint32_t rules_off = RuleBits(args.upstream.rules_off);
  if (args.key != nullptr) {
    if (!args.key->mode.empty()) mode = args.key->mode;
    rules_off |= RuleBits(args.key->rules_off);
  }
  const bool untouched =
      args.is_fixed || args.encoded || IsSubscribed(args.provider, args.credential, args.fields) ||
      args.endpoint == dialect::form::Endpoint::kGenerateContent;  // its prefix is cached as it is
  return {.body = args.body,
          .layout = args.layout,
          .endpoint = args.endpoint,
          .model = args.model,
          .tenant = args.tenant,
          .session = SessionOf(args.fields),
          .upstream = args.upstream.name,
          .provider = args.provider,
          .mode = untouched ? Mode::kObserve : prompt::ParseMode(mode).value_or(Mode::kPin),
          .rules_off = rules_off,
          .ttl_supported = args.upstream.cache_ttl,
          .has_conversation_header = !FindHeader(args.fields, "x-grok-conv-id").empty(),
          .is_fixed = untouched,
          .no_system_turn = args.no_system_turn,
          .begins_anew = args.begins_anew,
          .is_recalled = args.is_recalled,
          .now_us = WallClock::NowUs()};
}

Prompts::Layout Prompts::ReadKnown(dialect::form::Endpoint endpoint, std::string_view body,
                                   std::string_view model) {
  std::optional<prompt::parse::RequestLayout> read =
      optimizer_.ReadKnownLayout(endpoint, body, model);
  if (!read) return nullptr;
  return std::make_shared<const prompt::parse::RequestLayout>(*std::move(read));
}

Prompts::Known Prompts::Recognize(const KnowArgs& args) {
  Known known;
  known.layout = args.layout;
  if (known.layout == nullptr) {
    Result<prompt::parse::RequestLayout> read =
        optimizer_.ReadLayout(args.endpoint, args.body, args.model);
    if (!read) return known;
    known.layout = std::make_shared<const prompt::parse::RequestLayout>(std::move(*read));
  }
  const prompt::parse::RequestLayout* const layout = known.layout.get();
  const prompt::history::Recognition found =
      prompt::history::Recognize({.layout = *layout,
                                  .body = args.body,
                                  .tenant = args.tenant,
                                  .session = SessionOf(args.fields),
                                  .upstream = {}});
  known.conversation = found.keys.front();
  known.prefix = found.shape;
  for (const prompt::parse::Segment& segment : layout->segments) {
    known.num_tokens += segment.num_tokens;
    if (segment.place.section != prompt::parse::Section::kMessages) {
      known.num_prefix_tokens += segment.num_tokens;
    }
  }
  known.thinks_hard = ThinksHard(*layout, args.body);
  known.has_output_limit = layout->Find("max_tokens") != nullptr ||
                           layout->Find("max_completion_tokens") != nullptr ||
                           layout->Find("max_output_tokens") != nullptr;
  return known;
}

namespace {

// Returns why the body may not be changed; empty if it may.
std::string_view WhyFixed(const Prompts::Args& args) {
  const bool has_own = args.key != nullptr && !args.key->mode.empty();
  const std::string_view mode = has_own ? args.key->mode : args.upstream.mode;
  if (prompt::ParseMode(mode) == Mode::kObserve) {
    return "In mode 'observe' nothing of a request is changed";
  }
  if (!IsSubscribed(args.provider, args.credential, args.fields)) return "";
  return "With a subscription's credential nothing of a request is changed";
}

dialect::form::OutputLimit LimitOf(const Prompts::Args& args) {
  constexpr uint32_t kCapBit = uint32_t{1} << static_cast<int>(Rule::kOutputCap);
  if ((RuleBits(args.upstream.rules_off) & kCapBit) != 0) return {};
  return OutputLimitOf(args.key, args.fields);
}

// Returns the edits that enforce the key's limit on answers.
Result<std::vector<prompt::parse::Edit>> CapOf(const Prompts::Args& args) {
  const dialect::form::OutputLimit limit = LimitOf(args);
  if (limit.most == 0) return std::vector<prompt::parse::Edit>();
  return CapOutput({.body = args.body,
                    .endpoint = args.endpoint,
                    .provider = args.provider,
                    .limit = limit,
                    .key = args.key->name,
                    .fixed = WhyFixed(args)});
}

// Decides whether an explicit cache stands for a part of the request.
std::optional<CacheUse> UseCache(const Prompts::Args& args, const prompt::OptimizeArgs& asked,
                                 explicit_cache::ExplicitCaching& caching) {
  if (args.endpoint != dialect::form::Endpoint::kGenerateContent || args.no_system_turn ||
      args.is_fixed || args.encoded || !WhyFixed(args).empty() ||
      (asked.rules_off & prompt::parse::Bit(Rule::kExplicitCache)) != 0) {
    return std::nullopt;
  }
  return caching.Decide({.body = args.body,
                         .tenant = args.tenant,
                         .upstream = args.upstream.name,
                         .provider = args.provider,
                         .credential = args.credential,
                         .model = args.model,
                         .now_us = asked.now_us});
}

}  // namespace

Result<Prompts::Prompt> Prompts::Prepare(const Args& args) {
  // The limit is checked first, because a refused request must not be remembered.
  KVGATE_TRY(std::vector<prompt::parse::Edit> imposed, CapOf(args));
  Prompt result;
  if (args.endpoint == dialect::form::Endpoint::kCompletions) {  // its prompts are not parsed
    const prompt::parse::Span whole = {0, static_cast<uint32_t>(args.body.size())};
    if (!imposed.empty()) result.body = prompt::parse::ApplyEdits(args.body, imposed, whole);
    return result;
  }
  prompt::OptimizeArgs asked = ArgsOf(args);
  std::optional<CacheUse> cache = UseCache(args, asked, explicit_caching_);
  if (cache) {
    imposed.insert(imposed.end(), cache->edits.begin(), cache->edits.end());
    prompt::parse::SortEdits(imposed);
    result.names_cache = !cache->name.empty();
    result.order = std::exchange(cache->order, std::nullopt);
  }
  asked.imposed = imposed;
  prompt::Prepared prepared = optimizer_.Prepare(asked);
  if (!prepared.recall.empty()) {
    result.recall = RecallOf(prepared, args.tenant);
    return result;
  }
  Count(prepared);
  result.write = kept_.Keep(args.tenant, prepared);
  result.may_be_refused = prepared.MayBeRefused();
  result.holds = prepared.held_stale.has_value();
  result.conversation = ToHex(prepared.conversation.id);
  result.body = std::exchange(prepared.body, std::nullopt);
  result.headers = std::exchange(prepared.headers, {});
  result.preparation = std::make_shared<Preparation>(optimizer_, kept_, args.tenant,
                                                     std::move(prepared), std::move(cache));
  return result;
}

void Prompts::Withdraw(upstream::ExchangePreparation& refused) {
  static_cast<Preparation&>(refused).Abandon();
}

void Prompts::NoteRefused(const upstream::ExchangePreparation& refused) {
  const auto& own = static_cast<const Preparation&>(refused);
  if (own.cache() && !own.cache()->name.empty()) explicit_caching_.NoteLost(*own.cache());
  if (!own.prepared().MayBeRefused()) return;
  const std::string said = optimizer_.NoteRefused(own.prepared());
  if (!said.empty()) KVGATE_LOG(kWarning, "proxy", "{}", said);
}

std::function<void()> Prompts::RecallOf(const prompt::Prepared& prepared, std::string_view tenant) {
  return [this, keys = prepared.recall, known = prepared.known, tenant = std::string(tenant)] {
    kept_.Recall({.tenant = tenant, .keys = keys, .known = known}, [&](const auto& conversation) {
      optimizer_.Restore(
          {.tenant = tenant, .keys = conversation.keys, .branches = conversation.branches});
    });
  };
}

prompt::Optimizer::Options Prompts::WithPast(prompt::Optimizer::Options options,
                                             const Parts& parts) {
  static const prompt::history::NoPast kNothing;
  if (parts.branches != nullptr) {
    options.past = branches::KeptBranches(parts.branches, parts.shared).past();
  } else if (parts.must_keep) {
    options.past = &kNothing;
  }
  return options;
}

void Prompts::Count(const prompt::Prepared& prepared) {
  using prompt::history::Rewrite;
  if (parts_.metrics == nullptr) return;
  if (prepared.is_lost) parts_.metrics->requests_with_lost_state.Add();
  if (prepared.rewrite == Rewrite::kNone) return;
  parts_.metrics->prefix_rewrites
      .With({prepared.rewrite == Rewrite::kClient ? "client" : "gateway"})
      .Add();
}

Result<void> Prompts::CheckUnread(const Args& args) {
  const dialect::form::OutputLimit limit =
      HasAnswer(args.endpoint) ? LimitOf(args) : dialect::form::OutputLimit();
  if (limit.most == 0) return {};
  return UnreadableBound(args.key->name, limit);
}

void Prompts::Complete(ledger::RequestRecord& record, const ledger::reply::ReplyFacts& facts,
                       upstream::ExchangePreparation& preparation,
                       std::span<const dialect::form::PromptSegment> counted) {
  auto& own = static_cast<Preparation&>(preparation);
  const prompt::Prepared& prepared = own.prepared();
  if (parts_.metrics != nullptr && facts.num_thinking_dropped > 0) {
    parts_.metrics->thinking_dropped.Add(facts.num_thinking_dropped);
  }
  record.mode = prompt::ModeName(prepared.mode);
  if (!prepared.unreadable.empty()) return;
  record.conversation = ToHex(prepared.conversation.id);
  record.conversation_origin = prepared.conversation.origin;
  for (const prompt::parse::Edit& edit : prepared.edits) CountEdit(edit, record.edits);
  if (record.provider != prompt::kLocalProvider) record.plan = PlanOf(prepared);
  if (prepared.held_stale) {
    record.held_stale = {.num_lines = static_cast<int64_t>(prepared.held_stale->num_lines),
                         .seconds = prepared.held_stale->seconds};
  }
  // A refused request has written no cache entry that a later one could read.
  if (record.status < 200 || record.status >= 300) return;
  const std::vector<prompt::diagnose::CountedRun> runs = ToRuns(counted);
  prompt::Report report = own.Finish({.usage = record.usage,
                                      .provider_reason = facts.provider_reason.view(),
                                      .service_tier = record.service_tier,
                                      .counted = runs,
                                      .now_us = WallClock::NowUs()});
  if (own.cache() && record.usage) {
    explicit_caching_.NoteAnswer(*own.cache(), {.input_tokens = record.usage->input_tokens(),
                                                .cached_tokens = record.usage->cache_read_tokens,
                                                .now_us = WallClock::NowUs()});
  }
  record.prefix_break = ToRecord(report.prefix_break);
  savings_.Add({.tenant = record.tenant,
                .model = record.model,
                .losses = report.slot_losses,
                .branch = report.branch});
  record.cache_ttl_seconds = report.ttl_seconds;
  record.prompt = report.prompt;
  record.direct_usage = report.direct;
  if (!report.attribution) return;
  record.is_estimated = !report.is_counted;
  record.segments = std::move(report.parts);
  for (size_t i = 0; i < prompt::parse::kNumSources; ++i) {
    const prompt::diagnose::SourceTokens& tokens = (*report.attribution)[i];
    if (tokens == prompt::diagnose::SourceTokens()) continue;
    record.attribution.push_back(
        {.source = std::string(prompt::parse::SourceName(static_cast<prompt::parse::Source>(i))),
         .cached = tokens.cached,
         .written = tokens.written,
         .uncached = tokens.uncached});
  }
}

std::vector<int32_t> Prompts::CutsOf(const upstream::ExchangePreparation& preparation) {
  return prompt::Optimizer::CutsOf(static_cast<const Preparation&>(preparation).prepared());
}

const std::vector<prompt::diagnose::SourceRun>& Prompts::RunsOf(
    const upstream::ExchangePreparation& preparation) {
  return static_cast<const Preparation&>(preparation).runs();
}

namespace {

// Explain shows at most this much of the text before and after an edit.
constexpr size_t kShownBytesMax = 200;

void WriteEdit(const prompt::parse::Edit& edit, std::string_view body,
               dialect::form::JsonWriter& json) {
  json.BeginObject().Key("rule").String(prompt::parse::RuleName(edit.rule));
  json.Key("path").String(edit.path);
  json.Key("before").String(edit.span.In(body).substr(0, kShownBytesMax));
  json.Key("after").String(std::string_view(edit.bytes).substr(0, kShownBytesMax));
  json.Key("bytes_removed").Unsigned(edit.span.size());
  json.Key("bytes_added").Unsigned(edit.bytes.size()).EndObject();
}

void WriteHold(const prompt::Prepared& prepared, dialect::form::JsonWriter& json) {
  json.Key("held_stale");
  if (!prepared.held_stale) {
    json.Null();
    return;
  }
  json.BeginObject().Key("lines").Unsigned(prepared.held_stale->num_lines);
  json.Key("seconds").Integer(prepared.held_stale->seconds).EndObject();
}

void WriteRules(const prompt::Prepared& prepared, uint32_t rules_off,
                dialect::form::JsonWriter& json) {
  json.Key("rules").BeginArray();
  for (size_t i = 0; i < prompt::parse::kNumRules; ++i) {
    const auto rule = static_cast<Rule>(i);
    const auto count =
        std::count_if(prepared.edits.begin(), prepared.edits.end(),
                      [&](const prompt::parse::Edit& edit) { return edit.rule == rule; });
    json.BeginObject().Key("name").String(prompt::parse::RuleName(rule));
    json.Key("on").Bool((rules_off >> i & 1) == 0).Key("edits").Integer(count).EndObject();
  }
  json.EndArray();
}

// Returns the rules that a mode disables, in addition to those that the configuration switches off.
uint32_t RulesOffIn(Mode mode) {
  constexpr uint32_t kAll = (uint32_t{1} << prompt::parse::kNumRules) - 1;
  if (mode == Mode::kObserve) return kAll;
  return mode == Mode::kStabilize ? 0 : prompt::parse::kStabilizeRules;
}

// Writes the estimated tokens of each source.
void WriteSources(const Prompts::Args& args, dialect::form::JsonWriter& json) {
  std::array<int64_t, prompt::parse::kNumSources> tokens{};
  prompt::parse::SegmentMemo memo(1);
  const Result<prompt::parse::RequestLayout> layout =
      prompt::parse::ReadRequestLayout(args.endpoint, args.body, memo);
  if (layout) {
    for (const prompt::parse::Segment& segment : layout->segments) {
      tokens[static_cast<size_t>(segment.source)] += segment.num_tokens;
    }
  }
  json.Key("sources").BeginObject();
  for (size_t i = 0; i < prompt::parse::kNumSources; ++i) {
    if (tokens[i] == 0) continue;
    json.Key(prompt::parse::SourceName(static_cast<prompt::parse::Source>(i))).Integer(tokens[i]);
  }
  json.EndObject();
}

// Writes the templates of one model.
void WriteTemplates(const prompt::templates::Templates::Learnt& learnt,
                    dialect::form::JsonWriter& json) {
  for (const prompt::templates::Template& it : learnt.templates) {
    json.BeginObject().Key("model").String(learnt.scope.model);
    json.Key("place").String(prompt::templates::PlaceName(it.slot->form.place));
    json.Key("line").String(prompt::templates::LineOf(it));
    json.Key("is_slot").Bool(it.is_slot).Key("moves").Bool(it.is_slot && it.slot->moves);
    json.Key("why").String(prompt::templates::WhyOf(it));
    json.Key("value_changes").Unsigned(it.value_changes);
    json.Key("word_changes").Unsigned(it.word_changes);
    json.Key("conversations_changed").Unsigned(it.conversations);
    json.Key("conversations_begun").Unsigned(it.begun);
    json.Key("conversations_begun_otherwise").Unsigned(it.begun_changed);
    json.Key("line_tokens").Unsigned(it.line_tokens);
    json.Key("tokens_at_stake").Unsigned(it.stake_tokens).EndObject();
  }
}

void WritePlan(const prompt::planner::Plan& plan, dialect::form::JsonWriter& json) {
  json.Key("plan").BeginObject().Key("reason").String(plan.reason);
  json.Key("expected_reuse").Number(plan.expected_reuse);
  json.Key("markers").Unsigned(plan.breakpoints.size());
  json.Key("prompt_cache_key");
  if (plan.prompt_cache_key.empty()) {
    json.Null();
  } else {
    json.String(plan.prompt_cache_key);
  }
  json.EndObject();
}

}  // namespace

config::UpstreamConfig LocalUpstream(const config::EngineConfig& engine) {
  config::UpstreamConfig local;
  local.name = prompt::kLocalProvider;
  local.mode = engine.mode;
  local.rules_off = engine.rules_off;
  for (const Rule rule :
       {Rule::kCacheControl, Rule::kTtlDropped, Rule::kPromptCacheKey, Rule::kBreakpoints,
        Rule::kConversationId, Rule::kOutputCap, Rule::kThinkingRemoved}) {
    local.rules_off.emplace_back(prompt::parse::RuleName(rule));
  }
  return local;
}

void Prompts::WriteSavings(dialect::form::JsonWriter& json,
                           const std::optional<std::string>& tenant) const {
  using prompt::diagnose::SlotSavings;
  const auto write = [&](const SlotSavings::Sum& sum) {
    json.Key("requests").Integer(sum.requests).Key("tokens").Integer(sum.tokens);
    json.Key("nanodollars").Integer(sum.nanodollars);
  };
  const SlotSavings::Savings savings = savings_.List(tenant);
  json.BeginObject().Key("since_us").Integer(savings.since_us);
  write(savings.sum);
  json.Key("slots").BeginArray();
  for (const SlotSavings::Saving& slot : savings.slots) {
    json.BeginObject().Key("tenant").String(slot.tenant).Key("model").String(slot.model);
    json.Key("place").String(prompt::templates::PlaceName(slot.place)).Key("line");
    if (slot.line.empty()) {
      json.Null();
    } else {
      json.String(slot.line);
    }
    json.Key("path").String(slot.path);
    write(slot.sum);
    json.EndObject();
  }
  json.EndArray().EndObject();
}

std::string Prompts::ListTemplates(std::string_view tenant) const {
  std::string text;
  dialect::form::JsonWriter json(text);
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  for (const auto& learnt : optimizer_.templates().List(tenant)) WriteTemplates(learnt, json);
  json.EndArray().EndObject();
  return text;
}

std::optional<std::string> Prompts::Preview(const Args& args) const {
  return optimizer_.DryRun(ArgsOf(args)).body;
}

// What the disk knows of a conversation. The reader may outlive who waits for it.
struct Prompts::Explanation::Read {
  std::mutex mutex;
  std::optional<Branches> branches;  // nullopt: they have not been read
};

Prompts::Explanation Prompts::BeginExplanation(const Args& args) const {
  Explanation explanation;
  if (kept_.is_kept()) {
    const Branches none;
    prompt::OptimizeArgs asked = ArgsOf(args);
    asked.read = &none;
    const prompt::Prepared prepared = optimizer_.DryRun(asked);
    if (!prepared.recall.empty()) {
      explanation.read_ = std::make_shared<Explanation::Read>();
      explanation.recall = [kept = kept_, keys = prepared.recall, known = prepared.known,
                            tenant = std::string(args.tenant), read = explanation.read_] {
        Branches branches = kept.Peek({.tenant = tenant, .keys = keys, .known = known});
        const std::lock_guard lock(read->mutex);
        read->branches = std::move(branches);
      };
      return explanation;
    }
  }
  explanation.text = Explain(args);
  return explanation;
}

std::string Prompts::FinishExplanation(const Args& args, const Explanation& begun) const {
  Branches branches;
  {
    const std::lock_guard lock(begun.read_->mutex);
    if (begun.read_->branches) branches = *begun.read_->branches;
  }
  return Explain(args, &branches);
}

std::string Prompts::Explain(const Args& args, const Branches* read) const {
  prompt::OptimizeArgs asked = ArgsOf(args);
  asked.read = read;
  asked.is_recalled = read != nullptr;  // what could not be read counts as lost
  const Result<std::vector<prompt::parse::Edit>> cap = CapOf(args);
  if (cap) asked.imposed = *cap;
  prompt::Prepared prepared = optimizer_.DryRun(asked);
  if (!cap) prepared.notes.push_back("It would be refused: " + cap.error().detail);
  if (prepared.is_lost) {
    prepared.notes.emplace_back(
        "what its conversation has sent before is not known any more, so that it goes out as "
        "received");
  }
  return Explain(args, asked, prepared);
}

std::string Prompts::Explain(const Args& args, const prompt::OptimizeArgs& asked,
                             const prompt::Prepared& prepared) const {
  std::string text;
  dialect::form::JsonWriter json(text);
  json.BeginObject().Key("object").String("kvgate.explanation");
  json.Key("upstream").String(asked.upstream).Key("provider").String(asked.provider);
  json.Key("mode").String(prompt::ModeName(prepared.mode));
  json.Key("unreadable");
  if (prepared.unreadable.empty()) {
    json.Null();
  } else {
    json.String(prepared.unreadable);
  }
  json.Key("conversation").BeginObject();
  json.Key("id").String(ToHex(prepared.conversation.id));
  json.Key("origin").String(prepared.conversation.origin);
  json.Key("first").Bool(prepared.first_of_conversation).EndObject();
  json.Key("edits").BeginArray();
  for (const prompt::parse::Edit& edit : prepared.edits) WriteEdit(edit, args.body, json);
  json.EndArray().Key("headers").BeginArray();
  for (const auto& [name, value] : prepared.headers) {
    json.BeginObject().Key("name").String(name).Key("value").String(value).EndObject();
  }
  json.EndArray();
  if (args.provider == prompt::kLocalProvider) {
    json.Key("plan").Null();
  } else {
    WritePlan(prepared.plan, json);
  }
  WriteHold(prepared, json);
  WriteRules(prepared, asked.rules_off | RulesOffIn(prepared.mode), json);
  WriteSources(args, json);
  json.Key("templates").BeginArray();
  for (const auto& learnt : optimizer_.templates().List(args.tenant)) {
    if (learnt.scope.model == prepared.model) WriteTemplates(learnt, json);
  }
  json.EndArray();
  json.Key("notes").BeginArray();
  for (const std::string& note : prepared.notes) json.String(note);
  json.EndArray().EndObject();
  return text;
}

}  // namespace kvgate::service
