// SourceCost divides the input cost of a request by source. Pure; any thread may call it.
#pragma once

#include <span>
#include <string_view>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/request_record.h"

namespace kvgate::ledger {

// Sets `nanodollars` of each source so that they sum to CostOf for the input alone. Tokens written
// for five minutes and for an hour are known as totals only, so each source pays their mean price.
// Does nothing if there is no price.
void ShareInputCost(const PriceRow& row, const reply::TokenUsage& usage, std::string_view tier,
                    std::span<SourceTokens> sources);

}  // namespace kvgate::ledger
