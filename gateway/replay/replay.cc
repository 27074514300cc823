#include "gateway/replay/replay.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "gateway/dialect/form/json_writer.h"

namespace kvgate::replay {
namespace {

using dialect::form::Endpoint;
using ColumnResult = ReplayResult::ColumnResult;

constexpr double kNanodollars = 1e9;
constexpr std::string_view kDirect = "direct";
constexpr std::string_view kOracle = "oracle";

// Gemini's bodies name no model, and no cache here knows its order.
bool HasPrompt(Endpoint endpoint) {
  return dialect::form::IsGeneration(endpoint) && endpoint != Endpoint::kGenerateContent;
}

// Anthropic and OpenAI speak one dialect each; other providers accept either.
Result<void> CheckDialect(const TraceRequest& request, const std::string& provider) {
  const bool is_messages = request.endpoint == Endpoint::kMessages;
  if ((provider == "anthropic" && !is_messages) || (provider == "openai" && is_messages)) {
    return MakeError(ErrorCode::kInvalidArgument, "replay",
                     fmt::format("a request of the trace is in the other dialect than that of "
                                 "provider '{}'; choose one that speaks it with --provider",
                                 provider));
  }
  return {};
}

// Returns the body with another model name and all other bytes unchanged.
std::string WithModel(const std::string& body, const std::string& model) {
  simdjson::ondemand::parser parser;
  const simdjson::padded_string padded(body);
  simdjson::ondemand::document document;
  std::string_view raw;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document["model"].raw_json_token().get(raw) != simdjson::SUCCESS || raw.empty() ||
      raw.front() != '"') {
    return body;
  }
  const auto begin = static_cast<size_t>(raw.data() - padded.data());
  const size_t end = raw.find_last_of('"');
  std::string out = body.substr(0, begin);
  dialect::form::AppendJsonString(model, out);
  return out + body.substr(begin + end + 1);
}

const ColumnTotals* Find(const ReplayResult& result, std::string_view column,
                         std::string_view provider) {
  for (const ColumnResult& candidate : result.columns) {
    const auto found = candidate.totals.find(provider);
    if (candidate.name == column && found != candidate.totals.end()) return &found->second;
  }
  return nullptr;
}

std::optional<double> Dollars(const ColumnTotals& totals) {
  if (totals.num_unpriced > 0 || totals.num_requests == 0) return std::nullopt;
  return static_cast<double>(totals.nanodollars) / kNanodollars;
}

std::optional<double> Ratio(std::optional<double> value, std::optional<double> base) {
  if (!value || !base || *base == 0) return std::nullopt;
  return *value / *base;
}

std::optional<double> CostRatio(const ReplayResult& result, const ColumnTotals& totals,
                                std::string_view provider) {
  const ColumnTotals* direct = Find(result, kDirect, provider);
  if (direct == nullptr || direct->num_requests != totals.num_requests) return std::nullopt;
  return Ratio(Dollars(totals), Dollars(*direct));
}

std::optional<double> CachedRatio(const ReplayResult& result, const ColumnTotals& totals,
                                  std::string_view provider, std::string_view base) {
  const ColumnTotals* other = Find(result, base, provider);
  if (other == nullptr) return std::nullopt;
  return Ratio(static_cast<double>(totals.usage.cache_read_tokens),
               static_cast<double>(other->usage.cache_read_tokens));
}

std::string Cell(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::vector<std::string> ProvidersOf(const ReplayResult& result) {
  std::vector<std::string> names;
  for (const auto& [name, totals] : result.columns.front().totals) names.push_back(name);
  return names;
}

std::string BreakLines(const ColumnResult& column, std::string_view provider) {
  std::string text;
  const auto found = column.totals.find(provider);
  if (found == column.totals.end()) return text;
  for (const auto& [cause, breaks] : found->second.breaks) {
    if (breaks.lost_tokens == 0 && cause == "none") continue;
    text += fmt::format("  {:<10} {:<20} {:>6} requests {:>12} tokens lost\n", column.name, cause,
                        breaks.count, breaks.lost_tokens);
  }
  return text;
}

void WriteOptional(dialect::form::JsonWriter& json, std::string_view name,
                   std::optional<double> value) {
  json.Key(name);
  value ? json.Number(*value) : json.Null();
}

void WriteTotals(dialect::form::JsonWriter& json, const ReplayResult& result,
                 std::string_view provider, const ColumnTotals& totals) {
  json.Key("requests").Integer(totals.num_requests);
  json.Key("refused").Integer(totals.num_refused);
  if (totals.num_refused > 0) json.Key("refusal").String(totals.refusal);
  json.Key("input_tokens").Integer(totals.usage.input_tokens());
  json.Key("cached_tokens").Integer(totals.usage.cache_read_tokens);
  json.Key("written_tokens")
      .Integer(totals.usage.cache_write_tokens + totals.usage.cache_write_1h_tokens);
  json.Key("written_1h_tokens").Integer(totals.usage.cache_write_1h_tokens);
  json.Key("uncached_tokens").Integer(totals.usage.uncached_tokens);
  json.Key("output_tokens").Integer(totals.usage.output_tokens);
  json.Key("hit_rate").Number(totals.hit_rate());
  WriteOptional(json, "dollars", Dollars(totals));
  json.Key("relative").Bool(totals.num_relative > 0);
  WriteOptional(json, "cost_ratio", CostRatio(result, totals, provider));
  WriteOptional(json, "cached_ratio", CachedRatio(result, totals, provider, kDirect));
  WriteOptional(json, "oracle_ratio", CachedRatio(result, totals, provider, kOracle));
  json.Key("breaks").BeginObject();
  for (const auto& [cause, breaks] : totals.breaks) {
    json.Key(cause).BeginObject();
    json.Key("requests").Integer(breaks.count);
    json.Key("lost_tokens").Integer(breaks.lost_tokens);
    json.Key("lost_dollars").Number(static_cast<double>(breaks.lost_nanodollars) / kNanodollars);
    json.EndObject();
  }
  json.EndObject();
  json.Key("edits").BeginObject();
  for (const auto& [rule, count] : totals.edits) json.Key(rule).Integer(count);
  json.EndObject();
}

}  // namespace

Result<ReplayResult> RunReplay(TraceReader& trace, const ReplayOptions& options,
                               const std::function<void(size_t)>& progress) {
  std::vector<std::unique_ptr<Column>> columns;
  columns.push_back(MakeDirectColumn(options.columns));
  for (const prompt::Mode mode : options.modes) {
    columns.push_back(MakeModeColumn(mode, options.columns));
  }
  columns.push_back(MakeOracleColumn(options.columns));
  ReplayResult result;
  for (size_t i = 0; i < trace.num_requests(); ++i) {
    KVGATE_TRY(TraceRequest request, trace.Read(i));
    if (!HasPrompt(request.endpoint)) {
      ++result.num_skipped;
      continue;
    }
    const std::string& provider = options.columns.provider;
    KVGATE_TRY_VOID(CheckDialect(request, provider.empty() ? request.provider : provider));
    if (!options.model.empty()) request.body = WithModel(request.body, options.model);
    const bool counted = result.num_requests++ >= options.num_warmup;
    for (const auto& column : columns) column->Feed(request, i, counted);
    if (progress) progress(i + 1);
  }
  for (const auto& column : columns) {
    column->End();
    result.columns.push_back({.name = column->name(), .totals = column->totals()});
  }
  return result;
}

std::string ReplayText(const ReplayResult& result) {
  std::string text;
  for (const std::string& provider : ProvidersOf(result)) {
    bool relative = false;
    text += fmt::format("{:<10} {:>8} {:>12} {:>12} {:>12} {:>7} {:>11} {:>8} {:>8}\n", provider,
                        "requests", "input", "cached", "written", "hits", "cost", "/ direct",
                        "/ oracle");
    for (const ColumnResult& column : result.columns) {
      const ColumnTotals* totals = Find(result, column.name, provider);
      if (totals == nullptr) continue;
      const ledger::reply::TokenUsage& usage = totals->usage;
      const std::optional<double> dollars = Dollars(*totals);
      relative = relative || totals->num_relative > 0;
      text += fmt::format(
          "{:<10} {:>8} {:>12} {:>12} {:>12} {:>6.1f}% {:>11} {:>8} {:>8}\n", column.name,
          totals->num_requests, usage.input_tokens(), usage.cache_read_tokens,
          usage.cache_write_tokens + usage.cache_write_1h_tokens, 100 * totals->hit_rate(),
          dollars ? fmt::format("${:.4f}", *dollars) : "-",
          Cell(CostRatio(result, *totals, provider), 3),
          Cell(CachedRatio(result, *totals, provider, kOracle), 3));
      if (totals->num_refused > 0) {
        text += fmt::format("  {} refused: {}\n", totals->num_refused, totals->refusal);
      }
    }
    if (relative) {
      text += "  costs: no price is known; a million uncached tokens count as one dollar\n";
    }
    std::string breaks;
    for (const ColumnResult& column : result.columns) breaks += BreakLines(column, provider);
    if (!breaks.empty()) text += "breaks:\n" + breaks;
  }
  if (result.num_skipped > 0) {
    text += fmt::format("{} requests without a prompt were left out\n", result.num_skipped);
  }
  return text;
}

std::string ReplayJson(const ReplayResult& result) {
  std::string text;
  dialect::form::JsonWriter json(text);
  json.BeginObject();
  json.Key("requests").Unsigned(result.num_requests);
  json.Key("skipped").Unsigned(result.num_skipped);
  json.Key("providers").BeginObject();
  for (const std::string& provider : ProvidersOf(result)) {
    json.Key(provider).BeginObject();
    for (const ColumnResult& column : result.columns) {
      const ColumnTotals* totals = Find(result, column.name, provider);
      if (totals == nullptr) continue;
      json.Key(column.name).BeginObject();
      WriteTotals(json, result, provider, *totals);
      json.EndObject();
    }
    json.EndObject();
  }
  json.EndObject();
  json.EndObject();
  return text + "\n";
}

std::vector<std::string> Misses(const ReplayResult& result, const Thresholds& thresholds) {
  std::vector<std::string> misses;
  const bool only_observe = result.columns.size() == 3;  // direct, one mode, oracle
  for (const ColumnResult& column : result.columns) {
    if (column.name == kDirect || column.name == kOracle) continue;
    if (column.name == "observe" && !only_observe) continue;
    for (const auto& [provider, totals] : column.totals) {
      const std::string where = fmt::format("{} at {}", column.name, provider);
      const std::optional<double> cost = CostRatio(result, totals, provider);
      const std::optional<double> oracle = CachedRatio(result, totals, provider, kOracle);
      if (totals.hit_rate() < thresholds.hit_rate_min) {
        misses.push_back(fmt::format("{}: hit rate {:.4f}, at least {}", where, totals.hit_rate(),
                                     thresholds.hit_rate_min));
      }
      if (thresholds.cost_ratio_max > 0 && (!cost || *cost > thresholds.cost_ratio_max)) {
        misses.push_back(fmt::format("{}: cost {} of direct, at most {}", where, Cell(cost, 4),
                                     thresholds.cost_ratio_max));
      }
      if (thresholds.oracle_ratio_min > 0 && oracle && *oracle < thresholds.oracle_ratio_min) {
        misses.push_back(fmt::format("{}: {} of the oracle's cached tokens, at least {}", where,
                                     Cell(oracle, 4), thresholds.oracle_ratio_min));
      }
    }
  }
  return misses;
}

}  // namespace kvgate::replay
