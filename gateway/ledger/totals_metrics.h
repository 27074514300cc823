// The sums of the ledger as metrics: kvgate_ledger_*, kvgate_prefix_break_total,
// kvgate_cost_usd_total. Pure; any thread may call it.
#pragma once

#include "gateway/ledger/totals.h"
#include "gateway/metrics/registry.h"

namespace kvgate::ledger {

void WriteTotalsMetrics(const Totals& totals, metrics::TextWriter& writer);

}  // namespace kvgate::ledger
