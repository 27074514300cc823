#include "gateway/ledger/totals.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <type_traits>
#include <utility>

#include "gateway/ledger/spending_elsewhere.h"

namespace kvgate::ledger {
namespace {

using dialect::form::JsonWriter;

constexpr std::array<std::string_view, 5> kKindNames = {"all", "upstream", "model", "tenant",
                                                        "prompt_version"};
constexpr std::string_view kSinceKey = "since";
constexpr std::string_view kSourceKind = "source";
constexpr std::string_view kBreakKind = "break";
constexpr std::string_view kOther = "other";
constexpr std::string_view kNoBreak = "none";
// Tenants have spending limits of their own, so more of them are kept apart.
constexpr size_t kTenantsMax = 4096;

template <typename S>
struct Member {
  std::string_view name;
  int64_t S::*value;
};
constexpr std::string_view kDirectName = "direct_nanodollars";
constexpr Member<Sum> kSumMembers[] = {{"requests", &Sum::requests},
                                       {"failed", &Sum::failed},
                                       {"unknown_usage", &Sum::unknown_usage},
                                       {"unknown_cost", &Sum::unknown_cost},
                                       {"uncached_tokens", &Sum::uncached_tokens},
                                       {"cache_read_tokens", &Sum::cache_read_tokens},
                                       {"cache_write_tokens", &Sum::cache_write_tokens},
                                       {"output_tokens", &Sum::output_tokens},
                                       {"nanodollars", &Sum::nanodollars},
                                       {"uncached_nanodollars", &Sum::uncached_nanodollars},
                                       {kDirectName, &Sum::direct_nanodollars},
                                       {"day", &Sum::day},
                                       {"day_nanodollars", &Sum::day_nanodollars},
                                       {"month", &Sum::month},
                                       {"month_nanodollars", &Sum::month_nanodollars},
                                       {"day_tokens", &Sum::day_tokens},
                                       {"month_tokens", &Sum::month_tokens}};
constexpr Member<SourceSum> kSourceMembers[] = {{"cached_tokens", &SourceSum::cached_tokens},
                                                {"written_tokens", &SourceSum::written_tokens},
                                                {"uncached_tokens", &SourceSum::uncached_tokens},
                                                {"nanodollars", &SourceSum::nanodollars}};
constexpr Member<BreakSum> kBreakMembers[] = {{"breaks", &BreakSum::breaks},
                                              {"lost_tokens", &BreakSum::lost_tokens},
                                              {"lost_nanodollars", &BreakSum::lost_nanodollars}};
constexpr size_t kNumShown = 11;  // the members behind these are for budgets only
// What rows of earlier versions may lack: the direct cost, which then is the cost, and tokens of
// budgets, which begin at 0.
constexpr std::array<std::string_view, 3> kMayLack = {kDirectName, "day_tokens", "month_tokens"};

bool UsesTokens(dialect::form::Endpoint endpoint) {
  return endpoint == dialect::form::Endpoint::kEmbeddings || dialect::form::IsGeneration(endpoint);
}

template <typename S>
void WriteMembers(const S& sum, std::span<const Member<S>> members, JsonWriter& json) {
  for (const Member<S>& member : members) json.Key(member.name).Integer(sum.*member.value);
}

template <typename S>
void WriteSeries(std::string_view key, const Totals::SeriesOf<S>& series,
                 std::type_identity_t<std::span<const Member<S>>> members, JsonWriter& json) {
  json.Key(key).BeginObject();
  for (const auto& [name, sum] : series) {
    json.Key(name).BeginObject();
    WriteMembers(sum, members, json);
    json.EndObject();
  }
  json.EndObject();
}

// Returns the sum of that name, or "other" if there are too many names.
template <typename S>
S& Place(Totals::SeriesOf<S>& series, std::string_view name, size_t series_max) {
  auto found = series.find(name);
  if (found == series.end()) {
    const std::string_view key = series.size() + 1 < series_max ? name : kOther;
    found = series.try_emplace(std::string(key)).first;
  }
  found->second.changed = true;
  return found->second;
}

using Rows = std::vector<std::pair<std::string, std::string>>;

template <typename S>
void TakeSeries(std::string_view kind, std::type_identity_t<std::span<const Member<S>>> members,
                Totals::SeriesOf<S>& series, Rows& rows) {
  for (auto& [name, sum] : series) {
    if (!std::exchange(sum.changed, false)) continue;
    std::string value;
    JsonWriter json(value);
    json.BeginObject();
    WriteMembers(sum, members, json);
    json.EndObject();
    rows.emplace_back(std::string(kind) + "/" + name, std::move(value));
  }
}

template <typename S>
bool RestoreSum(std::string_view name, const nlohmann::json& json,
                std::type_identity_t<std::span<const Member<S>>> members,
                Totals::SeriesOf<S>& series) {
  S sum;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto found = json.find(members[i].name);
    if (found == json.end() && std::ranges::find(kMayLack, members[i].name) != kMayLack.end()) {
      continue;
    }
    if (found == json.end() || !found->is_number_integer()) return false;
    sum.*members[i].value = found->template get<int64_t>();
  }
  if constexpr (std::is_same_v<S, Sum>) {
    if (!json.contains(kDirectName)) sum.direct_nanodollars = sum.nanodollars;
  }
  series.insert_or_assign(std::string(name), sum);
  return true;
}

// Begins the sums of a new period; returns false for an earlier one, because nobody asks for that
// any more.
bool EnterPeriod(int64_t period, int64_t& current, int64_t& nanodollars, int64_t& tokens) {
  if (period > current) {
    current = period;
    nanodollars = 0;
    tokens = 0;
  }
  return period == current;
}

upstream::Spending SpendingOf(const Sum& sum, int64_t now_us) {
  upstream::Spending spending;
  if (sum.day == DayOf(now_us)) {
    spending.dollars_today = static_cast<double>(sum.day_nanodollars) / 1e9;
    spending.tokens_today = sum.day_tokens;
  }
  if (sum.month == MonthOf(now_us)) {
    spending.dollars_this_month = static_cast<double>(sum.month_nanodollars) / 1e9;
    spending.tokens_this_month = sum.month_tokens;
  }
  return spending;
}

}  // namespace

void Sum::Add(const RequestRecord& record) {
  ++requests;
  if (IsFailed(record)) ++failed;
  if (!record.usage) {
    if (UsesTokens(record.endpoint) && record.status < 400 && record.status > 0) ++unknown_usage;
    return;
  }
  uncached_tokens += record.usage->uncached_tokens;
  cache_read_tokens += record.usage->cache_read_tokens;
  cache_write_tokens += record.usage->cache_write_tokens + record.usage->cache_write_1h_tokens;
  output_tokens += record.usage->output_tokens;
  const int64_t tokens = record.usage->input_tokens() + record.usage->output_tokens;
  const int64_t cost = record.cost ? record.cost->nanodollars : 0;
  if (EnterPeriod(DayOf(record.time_us), day, day_nanodollars, day_tokens)) {
    day_nanodollars += cost;
    day_tokens += tokens;
  }
  if (EnterPeriod(MonthOf(record.time_us), month, month_nanodollars, month_tokens)) {
    month_nanodollars += cost;
    month_tokens += tokens;
  }
  if (!record.cost) {
    ++unknown_cost;
    return;
  }
  nanodollars += cost;
  uncached_nanodollars += record.cost->uncached_nanodollars;
  direct_nanodollars += record.cost->direct_nanodollars;
}

Sum& Totals::At(Kind kind, std::string_view name) {
  return Place(series_[kind], name, kind == kTenant ? kTenantsMax : kSeriesMax);
}

void Totals::AddPrompt(const RequestRecord& record) {
  for (const SourceTokens& source : record.attribution) {
    SourceSum& sum = Place(sources_, source.source, kSourcesMax);
    sum.cached_tokens += source.cached;
    sum.written_tokens += source.written;
    sum.uncached_tokens += source.uncached;
    sum.nanodollars += source.nanodollars;
  }
  if (!record.prefix_break || record.prefix_break->cause == kNoBreak) return;
  BreakSum& sum = Place(breaks_, record.prefix_break->cause, kCausesMax);
  ++sum.breaks;
  sum.lost_tokens += record.prefix_break->lost_tokens;
  sum.lost_nanodollars += record.prefix_break->lost_nanodollars;
}

void Totals::Add(const RequestRecord& record) {
  if (since_us_ == 0) since_us_ = record.time_us;
  At(kAll, "").Add(record);
  At(kUpstream, record.upstream.empty() ? "none" : record.upstream).Add(record);
  // Refused requests count as "none", so that invented model names do not use up the series.
  At(kModel, record.outcome == "refused" ? "none" : record.model).Add(record);
  At(kTenant, record.tenant).Add(record);
  if (const std::string version = PromptVersionOf(record); !version.empty()) {
    At(kPrompt, version).Add(record);
  }
  AddPrompt(record);
}

upstream::Spending Totals::Spent(std::string_view tenant, int64_t now_us) const {
  const Series& tenants = series_[kTenant];
  auto found = tenants.find(tenant);
  if (found == tenants.end() && tenants.size() + 1 >= kTenantsMax) found = tenants.find(kOther);
  return found == tenants.end() ? upstream::Spending() : SpendingOf(found->second, now_us);
}

void Totals::ForEachSpending(
    int64_t now_us,
    const std::function<void(const std::string&, const upstream::Spending&)>& visit) const {
  for (const auto& [name, sum] : series_[kTenant]) {
    const bool is_used = sum.month_nanodollars > 0 || sum.month_tokens > 0;
    if (is_used && sum.month == MonthOf(now_us)) visit(name, SpendingOf(sum, now_us));
  }
}

Sum Totals::all() const {
  const auto found = series_[kAll].find("");
  return found == series_[kAll].end() ? Sum() : found->second;
}

void Totals::Write(JsonWriter& json) const {
  const auto shown = std::span(kSumMembers).first(kNumShown);
  json.BeginObject().Key("since_us").Integer(since_us_);
  WriteMembers(all(), shown, json);
  WriteSeries("by_upstream", series_[kUpstream], shown, json);
  WriteSeries("by_model", series_[kModel], shown, json);
  WriteSeries("by_tenant", series_[kTenant], shown, json);
  if (!series_[kPrompt].empty()) {
    WriteSeries("by_prompt_version", series_[kPrompt], shown, json);
  }
  WriteSeries("by_source", sources_, kSourceMembers, json);
  WriteSeries("breaks", breaks_, kBreakMembers, json);
  json.EndObject();
}

void Totals::WriteTenant(std::string_view tenant, JsonWriter& json) const {
  const auto shown = std::span(kSumMembers).first(kNumShown);
  Series own;
  const auto found = series_[kTenant].find(tenant);
  if (found != series_[kTenant].end()) own.insert(*found);
  json.BeginObject().Key("since_us").Integer(own.empty() ? 0 : since_us_);
  WriteMembers(own.empty() ? Sum() : own.begin()->second, shown, json);
  WriteSeries("by_tenant", own, shown, json);
  json.EndObject();
}

void Totals::ForEachUpstream(
    const std::function<void(const std::string&, const Sum&)>& visit) const {
  for (const auto& [name, sum] : series_[kUpstream]) visit(name, sum);
}

void Totals::ForEachModel(const std::function<void(const std::string&, const Sum&)>& visit) const {
  for (const auto& [name, sum] : series_[kModel]) visit(name, sum);
}

void Totals::ForEachPrompt(const std::function<void(const std::string&, const Sum&)>& visit) const {
  for (const auto& [name, sum] : series_[kPrompt]) visit(name, sum);
}

std::vector<std::pair<std::string, std::string>> Totals::TakeChanged() {
  Rows rows;
  for (size_t kind = 0; kind < kNumKinds; ++kind) {
    TakeSeries(kKindNames[kind], kSumMembers, series_[kind], rows);
  }
  TakeSeries(kSourceKind, kSourceMembers, sources_, rows);
  TakeSeries(kBreakKind, kBreakMembers, breaks_, rows);
  if (!rows.empty()) rows.emplace_back(kSinceKey, std::to_string(since_us_));
  return rows;
}

bool Totals::Restore(std::string_view key, std::string_view value) {
  if (key == kSinceKey) {
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), since_us_);
    return code == std::errc() && end == value.data() + value.size();
  }
  const size_t slash = key.find('/');
  const nlohmann::json json = nlohmann::json::parse(value, nullptr, false);
  if (slash == std::string_view::npos || !json.is_object()) return false;
  const std::string_view kind_name = key.substr(0, slash);
  const std::string_view name = key.substr(slash + 1);
  if (kind_name == kSourceKind) return RestoreSum(name, json, kSourceMembers, sources_);
  if (kind_name == kBreakKind) return RestoreSum(name, json, kBreakMembers, breaks_);
  const auto kind = std::find(kKindNames.begin(), kKindNames.end(), kind_name);
  if (kind == kKindNames.end()) return false;
  return RestoreSum(name, json, kSumMembers, series_[kind - kKindNames.begin()]);
}

}  // namespace kvgate::ledger
