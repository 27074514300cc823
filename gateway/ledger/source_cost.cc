#include "gateway/ledger/source_cost.h"

#include <optional>
#include <vector>

#include "gateway/ledger/segment/apportion.h"

namespace kvgate::ledger {
namespace {

int64_t MeanWritePrice(const TokenPrices& prices, const reply::TokenUsage& usage) {
  const int64_t tokens = usage.cache_write_tokens + usage.cache_write_1h_tokens;
  if (tokens == 0) return prices.cache_write;
  return (usage.cache_write_tokens * prices.cache_write +
          usage.cache_write_1h_tokens * prices.cache_write_1h) /
         tokens;
}

}  // namespace

void ShareInputCost(const PriceRow& row, const reply::TokenUsage& usage, std::string_view tier,
                    std::span<SourceTokens> sources) {
  reply::TokenUsage input = usage;
  input.output_tokens = 0;
  const std::optional<Cost> cost = CostOf(row, input, tier);
  if (!cost || sources.empty()) return;
  const int64_t write_price = MeanWritePrice(*row.prices, usage);
  std::vector<int64_t> weights;
  for (const SourceTokens& source : sources) {
    weights.push_back(source.cached * row.prices->cache_read + source.written * write_price +
                      source.uncached * row.prices->input);
  }
  std::vector<int64_t> shares(sources.size());
  segment::Apportion(weights, cost->nanodollars, shares);
  for (size_t i = 0; i < sources.size(); ++i) sources[i].nanodollars = shares[i];
}

}  // namespace kvgate::ledger
