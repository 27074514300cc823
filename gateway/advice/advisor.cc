#include "gateway/advice/advisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string_view>

#include "base/digest.h"

namespace kvgate::advice {
namespace {

using ledger::PriceRow;
using ledger::RequestRecord;
using ledger::segment::RecordSegment;

constexpr int64_t kSecondUs = 1'000'000;
constexpr double kDayUs = 86'400e6;
// Little traffic is not blown up to a day that nobody has seen.
constexpr double kDaysMin = 0.25;
// A body that comes again within this time is a retry.
constexpr int64_t kRetryUs = 600 * kSecondUs;
constexpr size_t kTrackedMax = 50'000;
constexpr int64_t kUsualMinimum = 1'024;
constexpr int64_t kExamplesMin = 1'000;

constexpr std::string_view kVolatile = "volatile_system";
constexpr std::string_view kToolOrder = "tool_order";
constexpr std::string_view kUnused = "unused_tools";
constexpr std::string_view kFewShot = "few_shot_bulk";
constexpr std::string_view kUnbounded = "unbounded_transcript";
constexpr std::string_view kOversized = "oversized_outputs";
constexpr std::string_view kUnderMinimum = "prefix_under_minimum";
constexpr std::string_view kParallel = "parallel_cold_starts";
constexpr std::string_view kTtl = "wrong_ttl";
constexpr std::string_view kRetries = "retries_that_rewrite";
constexpr std::string_view kOneSize = "one_size_context";

// The texts of one kind of advice. `what` is completed with the number of requests and a detail.
struct Kind {
  std::string_view id;
  std::string_view title;
  std::string_view what;
  std::string_view fix;
  std::string_view setting;  // empty: none
  std::string_view value;
};
constexpr std::array<Kind, 11> kKinds = {{
    {kVolatile, "The system prompt changes",
     "In {0} requests a line of the system prompt had changed{1}, so that what stands behind it "
     "was not read from the cache.",
     "Move the changing line behind the stable text, or let the gateway do it.", "mode",
     "stabilize"},
    {kToolOrder, "Tools come in another order",
     "In {0} requests the tools stood in another order than before{1}, which loses the whole "
     "prefix.",
     "Send the tools in one order; the mode pin does that for you.", "mode", "pin"},
    {kUnused, "Tools that nobody calls", "{0} requests carried tools that were never called: {1}.",
     "Leave these tools out, or offer them only where they are needed.", "", ""},
    {kFewShot, "Many examples in each prompt",
     "In {0} requests the examples are a large part of the prompt{1}.",
     "Keep the few examples that matter, or choose them by the question.", "", ""},
    {kUnbounded, "Transcripts grow without bound",
     "{0} requests carried more of their conversation than a window would hold{1}.",
     "Compact the conversation: name a session, so that the gateway keeps it in its window.",
     "sessions.mode", "summary"},
    {kOversized, "Very long results of tools",
     "In {0} requests results of {1} are far longer than others, and stay in the transcript.",
     "Cut or page the results before they enter the prompt.", "", ""},
    {kUnderMinimum, "The prefix is just too short to be cached",
     "{0} requests began with the same text, which is a little shorter than the provider "
     "caches{1}.",
     "Put stable text, such as examples, in front, until the prefix reaches the minimum.", "", ""},
    {kParallel, "Equal prefixes start cold side by side",
     "{0} requests began before the first of their kind had been answered, and each of them paid "
     "for the whole prefix{1}.",
     "Send one request first and the others when it answers; a [[route]] does that for its "
     "requests.",
     "", ""},
    {kTtl, "The cache's lifetime does not fit",
     "{0} requests came after their prefix had left the provider's cache{1}.",
     "Ask for the longer lifetime of an hour in these conversations.", "", ""},
    {kRetries, "Retries pay for the prompt again",
     "{0} requests repeated an earlier one byte for byte, and paid for its prompt anew{1}.",
     "Wait for the answer longer before trying again, and try again with pauses.", "", ""},
    {kOneSize, "One context for all requests",
     "{0} requests of conversations that called no tool carried all of them{1}.",
     "Offer the tools only to the conversations that need them.", "", ""},
}};

const Kind& KindOf(std::string_view id) {
  return *std::find_if(kKinds.begin(), kKinds.end(),
                       [&](const Kind& kind) { return kind.id == id; });
}

void Grow(std::vector<std::string>& evidence, const std::string& id) {
  if (evidence.size() < kEvidenceMax) evidence.push_back(id);
}

int64_t PartOf(int64_t amount, int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<int64_t>(static_cast<__int128>(amount) * part / whole);
}

}  // namespace

// Prices the parts of one record.
class Advisor::Reader {
 public:
  Reader(const RequestRecord& request, const PriceRow* row)
      : record(request),
        minimum(row == nullptr || row->rules.minimum_tokens == 0 ? kUsualMinimum
                                                                 : row->rules.minimum_tokens),
        where{.model = request.model, .upstream = request.upstream, .key = request.key},
        has_longer_(row != nullptr && row->rules.ttl_long_seconds > row->rules.ttl_seconds),
        prices_(row != nullptr ? row->prices : std::nullopt) {
    const ledger::reply::TokenUsage& usage = *record.usage;
    written = usage.cache_write_tokens + usage.cache_write_1h_tokens;
    if (prices_ && written > 0) {
      write_ = (usage.cache_write_tokens * prices_->cache_write +
                usage.cache_write_1h_tokens * prices_->cache_write_1h) /
               written;
    }
  }

  const RequestRecord& record;
  const int64_t minimum;  // the shortest prefix that is cached
  const Where where;
  int64_t written = 0;
  int64_t input() const { return record.usage->input_tokens(); }
  int64_t prefix() const { return TokensOf("tools") + TokensOf("system"); }
  int64_t answered_us() const {
    return record.time_us + std::max<int64_t>(record.timings.ttft_us, 0);
  }

  // Prices are picodollars a token.
  int64_t CostOf(int64_t read, int64_t write, int64_t uncached) const {
    if (!prices_) return 0;
    return (read * prices_->cache_read + write * write_ + uncached * prices_->input) / 1'000;
  }
  int64_t CostOf(const RecordSegment& segment) const {
    return CostOf(segment.cached, segment.written, segment.uncached);
  }
  int64_t InputCostOf(int64_t tokens) const { return CostOf(0, 0, tokens); }

  // The provider's cache has a longer lifetime that a request can ask for.
  bool offers_longer() const { return has_longer_; }
  // What writing so many tokens for the longer lifetime costs more.
  int64_t LongerCostOf(int64_t tokens) const {
    return prices_ ? tokens * (prices_->cache_write_1h - prices_->cache_write) / 1'000 : 0;
  }

  int64_t TokensOf(std::string_view source) const {
    int64_t tokens = 0;
    for (const ledger::SourceTokens& part : record.attribution) {
      if (part.source == source) tokens += part.cached + part.written + part.uncached;
    }
    return tokens;
  }
  int64_t CostOfSource(std::string_view source) const {
    for (const ledger::SourceTokens& part : record.attribution) {
      if (part.source == source) return CostOf(part.cached, part.written, part.uncached);
    }
    return 0;
  }

 private:
  const bool has_longer_;
  const std::optional<ledger::TokenPrices> prices_;
  int64_t write_ = 0;
};

namespace {

// The breaks whose loss is the pattern's cost.
std::string_view PatternOf(const ledger::RecordBreak& found) {
  if (found.cause == "system_changed") return kVolatile;
  if (found.cause == "tools_reordered") return kToolOrder;
  return {};
}

std::string DetailOf(std::string_view pattern, const ledger::RecordBreak& found) {
  if (pattern != kVolatile || found.volatile_kind.empty()) return {};
  return fmt::format(" ({})", found.volatile_kind);
}

}  // namespace

void Advisor::Count(std::string_view id, const Reader& reader, Find add) {
  Where where = reader.where;
  if (id == kVolatile) where.path = reader.record.prefix_break->path;
  Find& find = finds_[{std::string(id), where}];
  ++find.num_requests;
  find.tokens += add.tokens;
  find.nanodollars += add.nanodollars;
  find.mode = reader.record.mode;
  if (!add.detail.empty()) find.detail = std::move(add.detail);
  Grow(find.evidence, reader.record.id);
}

void Advisor::AddBreak(const Reader& reader) {
  if (!reader.record.prefix_break) return;
  const ledger::RecordBreak& found = *reader.record.prefix_break;
  const std::string_view pattern = PatternOf(found);
  if (!pattern.empty() && found.lost_tokens > 0) {
    Count(pattern, reader,
          {.tokens = found.lost_tokens,
           .nanodollars = found.lost_nanodollars,
           .detail = DetailOf(pattern, found)});
  }
  const int64_t prefix = reader.prefix();
  if (found.cause != "below_minimum" || prefix >= reader.minimum || prefix * 2 < reader.minimum) {
    return;
  }
  // Reading the padded prefix costs something, too.
  const int64_t saved = reader.InputCostOf(prefix) - reader.CostOf(reader.minimum, 0, 0);
  if (saved < 0) return;
  Count(kUnderMinimum, reader,
        {.tokens = prefix,
         .nanodollars = saved,
         .detail = fmt::format(" ({} of {} tokens)", prefix, reader.minimum)});
}

void Advisor::AddParts(const Reader& reader, Traffic& traffic, Conversation& conversation) {
  Find oversized;
  Find history;
  bool is_folded = false;
  std::set<std::string_view> names;
  std::vector<const RecordSegment*> turns;
  for (const RecordSegment& segment : reader.record.segments) {
    is_folded = is_folded || segment.source == "summary";
    const int64_t cost = reader.CostOf(segment);
    if (segment.source == "tools") {
      conversation.tool_tokens += segment.tokens();
      conversation.tool_nanodollars += cost;
      Tool& tool = traffic.tools[segment.name];
      ++tool.num_requests;
      tool.tokens += segment.tokens();
      tool.nanodollars += cost;
    }
    const bool is_result = segment.source == "tool_results";
    if (is_result || segment.source == "history") {
      history.tokens += segment.tokens();
      turns.push_back(&segment);
    }
    if (!is_result) continue;
    conversation.calls_tools = true;
    if (!segment.name.empty()) traffic.tools[segment.name].is_called = true;
    const int64_t excess = segment.tokens() - options_.output_tokens;
    if (excess <= 0) continue;
    oversized.tokens += excess;
    oversized.nanodollars += PartOf(cost, excess, segment.tokens());
    names.insert(segment.name.empty() ? std::string_view("a tool") : segment.name);
  }
  if (!names.empty()) {
    oversized.detail = fmt::format("{}", fmt::join(names, ", ")).substr(0, 200);
    Count(kOversized, reader, std::move(oversized));
  }
  const int64_t dropped = std::min(reader.input() - options_.transcript_tokens, history.tokens);
  if (dropped <= 0 || is_folded || history.tokens * 10 < reader.input() * 6) return;
  // A window drops the oldest turns.
  history.tokens = dropped;
  int64_t left = dropped;
  for (const RecordSegment* turn : turns) {
    const int64_t taken = std::min(left, turn->tokens());
    history.nanodollars += PartOf(reader.CostOf(*turn), taken, turn->tokens());
    left -= taken;
  }
  Count(kUnbounded, reader, std::move(history));
}

// The longer lifetime costs more for all that is written, and saves what lapsed.
void Advisor::AddLifetime(const Reader& reader, Conversation& conversation) {
  if (!reader.offers_longer()) return;
  int64_t again = 0;
  if (const auto& found = reader.record.prefix_break; found && found->cause == "ttl_lapsed") {
    again = found->lost_tokens;
    ++conversation.lapsed.num_requests;
    conversation.lapsed.tokens += again;
    conversation.lapsed.nanodollars += found->lost_nanodollars;
    Grow(conversation.lapsed.evidence, reader.record.id);
  }
  const int64_t anew = reader.record.usage->cache_write_tokens - again;
  conversation.longer_nanodollars += reader.LongerCostOf(std::max<int64_t>(anew, 0));
}

void Advisor::AddLifetimes(std::map<FindKey, Find>& finds) const {
  for (const auto& [where, traffic] : traffic_) {
    Find sum;
    for (const auto& [id, conversation] : traffic.conversations) {
      const int64_t saved = conversation.lapsed.nanodollars - conversation.longer_nanodollars;
      // Without prices the tokens alone tell.
      if (conversation.lapsed.num_requests == 0 || saved < 0) continue;
      sum.num_requests += conversation.lapsed.num_requests;
      sum.tokens += conversation.lapsed.tokens;
      sum.nanodollars += saved;
      for (const std::string& request : conversation.lapsed.evidence) Grow(sum.evidence, request);
    }
    if (sum.num_requests > 0) finds[{std::string(kTtl), where}] = std::move(sum);
  }
}

// Equal prefixes at the same time: none can read what the others are about to write.
void Advisor::AddBeside(const Reader& reader) {
  const RequestRecord& record = reader.record;
  const bool is_cold = record.usage->cache_read_tokens == 0 && !ledger::IsFailed(record);
  const int64_t prefix = reader.prefix();
  if (record.prompt.empty() || !is_cold || prefix < reader.minimum) return;
  if (cold_.size() >= kTrackedMax) return;
  const Earlier now{.time_us = record.time_us, .answered_us = reader.answered_us()};
  const auto [first, is_new] = cold_.try_emplace({reader.where, record.prompt}, now);
  if (is_new) return;
  if (record.time_us >= first->second.answered_us) {
    first->second = now;
    return;
  }
  const int64_t paid = reader.CostOfSource("tools") + reader.CostOfSource("system");
  Count(kParallel, reader, {.tokens = prefix, .nanodollars = paid - reader.CostOf(prefix, 0, 0)});
}

void Advisor::AddRepeat(const Reader& reader) {
  const RequestRecord& record = reader.record;
  if (!record.received_sha256 || bodies_.size() >= kTrackedMax) return;
  const Earlier now{.time_us = record.time_us, .answered_us = reader.answered_us()};
  const auto [first, is_new] =
      bodies_.try_emplace({reader.where, ToHex(record.received_sha256->bytes)}, now);
  if (is_new) return;
  const int64_t unread = reader.input() - record.usage->cache_read_tokens;
  const bool is_retry = record.time_us - first->second.time_us <= kRetryUs;
  first->second = now;
  if (!is_retry || unread * 2 < reader.input() || reader.input() < reader.minimum) return;
  const int64_t paid = reader.CostOf(0, reader.written, record.usage->uncached_tokens);
  Count(kRetries, reader, {.tokens = unread, .nanodollars = paid - reader.CostOf(unread, 0, 0)});
}

void Advisor::Add(const RequestRecord& record) {
  if (!record.usage || record.outcome == "refused") return;
  const Reader reader(record, options_.prices.Find(record.provider, record.model));
  Traffic& traffic = traffic_[reader.where];
  ++traffic.num_requests;
  traffic.input_tokens += reader.input();
  AddBreak(reader);
  // Examples are a pattern if they are a fifth of a prompt that is not short.
  const int64_t examples = reader.TokensOf("examples");
  if (examples >= kExamplesMin && examples * 5 >= reader.input()) {
    Count(kFewShot, reader, {.tokens = examples, .nanodollars = reader.CostOfSource("examples")});
  }
  AddBeside(reader);
  AddRepeat(reader);
  const std::string& id = record.conversation.empty() ? record.id : record.conversation;
  Conversation rest;  // beyond the bound, conversations are not told apart
  const bool fits =
      traffic.conversations.size() < kTrackedMax || traffic.conversations.contains(id);
  Conversation& conversation = fits ? traffic.conversations[id] : rest;
  ++conversation.num_requests;
  conversation.input_tokens += reader.input();
  Grow(conversation.evidence, record.id);
  AddLifetime(reader, conversation);
  AddParts(reader, traffic, conversation);
}

void Advisor::AddUnusedTools(std::map<FindKey, Find>& finds) const {
  for (const auto& [where, traffic] : traffic_) {
    Find find;
    std::vector<std::pair<int64_t, std::string>> names;
    for (const auto& [name, tool] : traffic.tools) {
      if (tool.is_called || tool.num_requests < options_.requests_min || name.starts_with("…")) {
        continue;
      }
      find.tokens += tool.tokens;
      find.nanodollars += tool.nanodollars;
      find.num_requests = std::max(find.num_requests, tool.num_requests);
      names.emplace_back(-tool.tokens, name);
    }
    // A few small tools are no pattern.
    if (find.tokens * 20 < traffic.input_tokens || names.empty()) continue;
    std::sort(names.begin(), names.end());
    for (size_t i = 0; i < std::min<size_t>(names.size(), 8); ++i) {
      find.detail += (i > 0 ? ", " : "") + names[i].second;
    }
    if (names.size() > 8) find.detail += fmt::format(" and {} more", names.size() - 8);
    for (const auto& [id, conversation] : traffic.conversations) {
      for (const std::string& request : conversation.evidence) Grow(find.evidence, request);
    }
    finds[{std::string(kUnused), where}] = std::move(find);
  }
}

// Where some conversations call tools and many others do not.
void Advisor::AddOneSize(std::map<FindKey, Find>& finds) const {
  for (const auto& [where, traffic] : traffic_) {
    // What is advised already is not advised again.
    const auto unused = finds.find({std::string(kUnused), where});
    int64_t all_tokens = 0;
    for (const auto& [name, tool] : traffic.tools) all_tokens += tool.tokens;
    const int64_t unused_tokens = unused == finds.end() ? 0 : unused->second.tokens;
    if (all_tokens == 0) continue;
    const double left =
        static_cast<double>(all_tokens - unused_tokens) / static_cast<double>(all_tokens);
    Find find;
    int64_t num_with = 0;
    int64_t num_without = 0;
    int64_t input_tokens = 0;
    for (const auto& [id, conversation] : traffic.conversations) {
      if (conversation.calls_tools) {
        ++num_with;
        continue;
      }
      ++num_without;
      input_tokens += conversation.input_tokens;
      find.num_requests += conversation.num_requests;
      find.tokens += static_cast<int64_t>(static_cast<double>(conversation.tool_tokens) * left);
      find.nanodollars +=
          static_cast<int64_t>(static_cast<double>(conversation.tool_nanodollars) * left);
      for (const std::string& request : conversation.evidence) Grow(find.evidence, request);
    }
    const bool is_mixed =
        num_with > 0 && num_without >= options_.requests_min && num_without * 3 >= num_with;
    if (is_mixed && find.tokens * 2 >= input_tokens) {
      finds[{std::string(kOneSize), where}] = std::move(find);
    }
  }
}

bool Advisor::IsWorthAWord(const Find& find, double days) const {
  if (find.num_requests < options_.requests_min) return false;
  return static_cast<double>(find.tokens) / days >= static_cast<double>(options_.tokens_min) ||
         static_cast<double>(find.nanodollars) / days >=
             static_cast<double>(options_.nanodollars_min);
}

std::vector<Advice> Advisor::Finish(int64_t from_us, int64_t to_us) const {
  std::map<FindKey, Find> finds = finds_;
  AddLifetimes(finds);
  AddUnusedTools(finds);
  AddOneSize(finds);
  const double days = std::max(kDaysMin, static_cast<double>(to_us - from_us) / kDayUs);
  std::vector<Advice> advice;
  for (const auto& [key, find] : finds) {
    const Kind& kind = KindOf(key.first);
    if (!IsWorthAWord(find, days) || find.nanodollars < 0) continue;
    Advice& item = advice.emplace_back();
    item.id = kind.id;
    item.title = kind.title;
    item.what = fmt::format(fmt::runtime(kind.what), find.num_requests, find.detail);
    item.where = key.second;
    item.num_requests = find.num_requests;
    item.evidence = find.evidence;
    item.tokens_per_day = static_cast<int64_t>(static_cast<double>(find.tokens) / days);
    item.nanodollars_per_day = static_cast<int64_t>(static_cast<double>(find.nanodollars) / days);
    item.fix = kind.fix;
    if (!kind.setting.empty() && find.mode != kind.value) {
      item.setting = Setting{.key = std::string(kind.setting), .value = std::string(kind.value)};
    }
  }
  std::stable_sort(advice.begin(), advice.end(), [](const Advice& a, const Advice& b) {
    return a.nanodollars_per_day != b.nanodollars_per_day
               ? a.nanodollars_per_day > b.nanodollars_per_day
               : a.tokens_per_day > b.tokens_per_day;
  });
  return advice;
}

void WriteAdvice(std::span<const Advice> advice, int64_t from_us, int64_t to_us,
                 dialect::form::JsonWriter& json) {
  json.BeginObject().Key("from_us").Integer(from_us).Key("to_us").Integer(to_us);
  json.Key("data").BeginArray();
  for (const Advice& item : advice) {
    json.BeginObject().Key("id").String(item.id).Key("title").String(item.title);
    json.Key("what").String(item.what).Key("where").BeginObject();
    json.Key("model").String(item.where.model).Key("upstream").String(item.where.upstream);
    if (!item.where.key.empty()) json.Key("key").String(item.where.key);
    if (!item.where.path.empty()) json.Key("path").String(item.where.path);
    json.EndObject().Key("requests").Integer(item.num_requests).Key("evidence").BeginArray();
    for (const std::string& id : item.evidence) json.String(id);
    json.EndArray().Key("tokens_per_day").Integer(item.tokens_per_day);
    json.Key("nanodollars_per_day").Integer(item.nanodollars_per_day);
    json.Key("fix").String(item.fix).Key("setting");
    if (item.setting) {
      json.BeginObject().Key("key").String(item.setting->key);
      json.Key("value").String(item.setting->value).EndObject();
    } else {
      json.Null();
    }
    json.EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace kvgate::advice
