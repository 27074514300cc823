// What a record adds to the sums by time, and to the clocks of the providers' caches. Pure; any
// thread may call it.
#pragma once

#include <optional>

#include "gateway/ledger/prices.h"
#include "gateway/ledger/request_record.h"
#include "gateway/ledger/rollup/entry.h"
#include "gateway/ledger/rollup/warm_caches.h"

namespace kvgate::ledger {

rollup::Entry EntryOf(const RequestRecord& record);

// Returns the cache that the request has left behind at its provider. nullopt if it left none, if
// its conversation or prices are not known, or if the local engine answered. `row` may be null.
std::optional<rollup::WarmCache> WarmCacheOf(const RequestRecord& record, const PriceRow* row);

}  // namespace kvgate::ledger
