// SourceCost: what the input of a request cost, by source. Pure; any thread.
#pragma once

#include <span>
#include <string_view>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/request_record.h"

namespace kvgate::ledger {

// Sets `nanodollars` of each: they sum to what CostOf gives for the input alone. Tokens written for
// five minutes and for an hour are told apart only as a whole, so each source pays their mean
// price. Without a price nothing is set.
void ShareInputCost(const PriceRow& row, const TokenUsage& usage, std::string_view tier,
                    std::span<SourceTokens> sources);

}  // namespace kvgate::ledger
