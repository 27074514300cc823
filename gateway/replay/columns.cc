#include "gateway/replay/columns.h"

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "gateway/replay/rendering.h"

namespace kvgate::replay {
namespace {

constexpr int64_t kRelativePrice = 1'000'000;  // picodollars per token

// Returns the row with its own prices, or with relative ones; nullopt if neither is known.
std::optional<ledger::PriceRow> PricedRow(const ledger::PriceRow* row) {
  if (row == nullptr || row->prices) return row == nullptr ? std::nullopt : std::optional(*row);
  if (!row->factors) return std::nullopt;
  const auto times = [](double factor) {
    return static_cast<int64_t>(std::llround(factor * kRelativePrice));
  };
  ledger::PriceRow relative = *row;
  relative.prices = ledger::TokenPrices{.input = kRelativePrice,
                                        .output = 0,
                                        .cache_read = times(row->factors->read),
                                        .cache_write = times(row->factors->write),
                                        .cache_write_1h = times(row->factors->write_long)};
  return relative;
}

// Returns nanodollars; 0 if there is no price.
int64_t CostIn(const ledger::PriceRow* row, const ledger::reply::TokenUsage& usage) {
  const std::optional<ledger::PriceRow> priced = PricedRow(row);
  const auto cost = priced ? ledger::CostOf(*priced, usage, "") : std::nullopt;
  return cost ? cost->nanodollars : 0;
}

void AddUsage(const ledger::reply::TokenUsage& usage, ledger::reply::TokenUsage& sum) {
  sum.uncached_tokens += usage.uncached_tokens;
  sum.cache_read_tokens += usage.cache_read_tokens;
  sum.cache_write_tokens += usage.cache_write_tokens;
  sum.cache_write_1h_tokens += usage.cache_write_1h_tokens;
  sum.output_tokens += usage.output_tokens;
}

void AddAnswer(const ledger::PriceRow* row, const ledger::reply::TokenUsage& usage,
               ColumnTotals& totals) {
  ++totals.num_requests;
  AddUsage(usage, totals.usage);
  if (!PricedRow(row)) {
    ++totals.num_unpriced;
    return;
  }
  if (!row->prices) ++totals.num_relative;
  totals.nanodollars += CostIn(row, usage);
}

int64_t OutputTokens(const TraceRequest& request) {
  return request.usage ? request.usage->output_tokens : 0;
}

// Simulated providers by name, each with its own cache.
class Providers {
 public:
  explicit Providers(const ColumnOptions& options) : options_(options) {}

  std::string NameFor(const TraceRequest& request) const {
    return options_.provider.empty() ? request.provider : options_.provider;
  }

  SimulatedAnswer Ask(const TraceRequest& request, std::string_view body,
                      std::string_view conversation_id) {
    std::unique_ptr<CacheModel>& model = models_[NameFor(request)];
    if (!model) {
      model = CacheModel::Make({.prices = options_.prices,
                                .provider = NameFor(request),
                                .overflows = options_.overflows,
                                .num_servers = options_.num_servers});
    }
    return model->Ask({.time_us = request.time_us,
                       .first_byte_us = request.ttft_us,
                       .credential = request.tenant,
                       .endpoint = request.endpoint,
                       .body = body,
                       .conversation_id = conversation_id,
                       .output_tokens = OutputTokens(request)});
  }

  const ledger::PriceRow* RowFor(const TraceRequest& request, std::string_view body) const {
    const Result<Rendering> prompt = Render(request.endpoint, body);
    return prompt ? options_.prices.Find(NameFor(request), prompt->model) : nullptr;
  }

 private:
  const ColumnOptions& options_;
  std::map<std::string, std::unique_ptr<CacheModel>> models_;
};

void AddRefusal(const std::string& refusal, ColumnTotals& totals) {
  if (totals.num_refused++ == 0) totals.refusal = refusal;
}

class DirectColumn final : public Column {
 public:
  explicit DirectColumn(const ColumnOptions& options)
      : Column("direct"), options_(options), providers_(options_) {}

  void Feed(const TraceRequest& request, size_t index, bool counted) override {
    const SimulatedAnswer answer =
        providers_.Ask(request, request.body, request.Header("x-grok-conv-id"));
    if (options_.sent) {
      options_.sent({.column = name(),
                     .request = index,
                     .body = request.body,
                     .prepared = prompt::Prepared(),
                     .answer = answer});
    }
    if (!counted) return;
    ColumnTotals& totals = TotalsOf(providers_.NameFor(request));
    if (!answer.refusal.empty()) return AddRefusal(answer.refusal, totals);
    AddAnswer(providers_.RowFor(request, request.body), answer.usage, totals);
  }

 private:
  const ColumnOptions options_;
  Providers providers_;
};

class OracleColumn final : public Column {
 public:
  explicit OracleColumn(const ColumnOptions& options)
      : Column("oracle"), options_(options), providers_(options_), oracle_(options_.prices) {}

  void Feed(const TraceRequest& request, size_t /*index*/, bool counted) override {
    Result<Oracle::Answer> answer = oracle_.Ask(request, providers_.NameFor(request));
    if (!counted) return;
    ColumnTotals& totals = TotalsOf(providers_.NameFor(request));
    if (!answer) return AddRefusal(answer.error().detail, totals);
    answer->usage.output_tokens = OutputTokens(request);
    const ledger::PriceRow* row = providers_.RowFor(request, request.body);
    AddAnswer(row, answer->usage, totals);
    // Tokens that an earlier request had to write are moved from uncached to written; the sum stays
    // equal.
    const int64_t written = answer->written_tokens;
    totals.usage.uncached_tokens -= written;
    totals.usage.cache_write_tokens += written;
    totals.nanodollars +=
        CostIn(row, {.cache_write_tokens = written}) - CostIn(row, {.uncached_tokens = written});
  }

 private:
  const ColumnOptions options_;
  Providers providers_;
  Oracle oracle_;
};

class ModeColumn final : public Column {
 public:
  ModeColumn(prompt::Mode mode, const ColumnOptions& options)
      : Column(std::string(prompt::ModeName(mode))),
        mode_(mode),
        options_(options),
        providers_(options_),
        optimizer_({.prices = options_.prices}) {}

  void Feed(const TraceRequest& request, size_t index, bool counted) override;
  void End() override {
    while (!running_.empty()) Finish(running_.begin());
  }

 private:
  struct Running {
    prompt::Prepared prepared;
    ledger::reply::TokenUsage usage;
    std::string provider;
    bool counted = false;
  };
  using Iterator = std::multimap<int64_t, Running>::iterator;
  void Finish(Iterator at);

  const prompt::Mode mode_;
  const ColumnOptions options_;
  Providers providers_;
  prompt::Optimizer optimizer_;
  std::multimap<int64_t, Running> running_;  // by the time at which the answer ends
};

void ModeColumn::Finish(Iterator at) {
  const Running& running = at->second;
  const prompt::Report report = optimizer_.Finish(
      running.prepared, {.usage = running.usage, .provider_reason = {}, .now_us = at->first});
  if (running.counted) {
    const prompt::diagnose::PrefixBreak& broken = report.prefix_break;
    BreakTotals& totals = TotalsOf(running.provider)
                              .breaks[std::string(prompt::diagnose::BreakCauseName(broken.cause))];
    ++totals.count;
    totals.lost_tokens += broken.lost_tokens;
    totals.lost_nanodollars += broken.lost_nanodollars;
  }
  running_.erase(at);
}

void ModeColumn::Feed(const TraceRequest& request, size_t index, bool counted) {
  while (!running_.empty() && running_.begin()->first <= request.time_us) {
    Finish(running_.begin());
  }
  const std::string provider = providers_.NameFor(request);
  const std::string_view own_session = request.Header("x-kvgate-session");
  prompt::Prepared prepared = optimizer_.Prepare(
      {.body = request.body,
       .endpoint = request.endpoint,
       .tenant = request.tenant,
       .session = own_session.empty() ? request.Header("session_id") : own_session,
       .upstream = request.upstream,
       .provider = provider,
       // Requests paid for by a subscription are never changed.
       .mode = request.is_oauth ? prompt::Mode::kObserve : mode_,
       .rules_off = options_.rules_off,
       .has_conversation_header = !request.Header("x-grok-conv-id").empty(),
       .now_us = request.time_us});
  std::string conversation_id(request.Header("x-grok-conv-id"));
  for (const prompt::Header& header : prepared.headers) {
    if (header.name == "x-grok-conv-id") conversation_id = header.value;
  }
  const std::string& body = prepared.body ? *prepared.body : request.body;
  const SimulatedAnswer answer = providers_.Ask(request, body, conversation_id);
  if (options_.sent) {
    options_.sent(
        {.column = name(), .request = index, .body = body, .prepared = prepared, .answer = answer});
  }
  ColumnTotals& totals = TotalsOf(provider);
  if (!answer.refusal.empty()) {
    optimizer_.Abandon(prepared);
    if (counted) AddRefusal(answer.refusal, totals);
    return;
  }
  if (counted) {
    AddAnswer(providers_.RowFor(request, body), answer.usage, totals);
    for (const prompt::parse::Edit& edit : prepared.edits) {
      ++totals.edits[std::string(prompt::parse::RuleName(edit.rule))];
    }
  }
  running_.emplace(request.time_us + request.total_us, Running{.prepared = std::move(prepared),
                                                               .usage = answer.usage,
                                                               .provider = provider,
                                                               .counted = counted});
}

}  // namespace

double ColumnTotals::hit_rate() const {
  const int64_t input = usage.input_tokens();
  return input == 0 ? 0 : static_cast<double>(usage.cache_read_tokens) / static_cast<double>(input);
}

ColumnTotals& Column::TotalsOf(std::string_view provider) { return totals_[std::string(provider)]; }

std::unique_ptr<Column> MakeDirectColumn(const ColumnOptions& options) {
  return std::make_unique<DirectColumn>(options);
}
std::unique_ptr<Column> MakeOracleColumn(const ColumnOptions& options) {
  return std::make_unique<OracleColumn>(options);
}
std::unique_ptr<Column> MakeModeColumn(prompt::Mode mode, const ColumnOptions& options) {
  return std::make_unique<ModeColumn>(mode, options);
}

}  // namespace kvgate::replay
