// The text of prices.json, built in.
#pragma once

namespace kvgate::ledger {

extern const char* const kPricesJson;

}  // namespace kvgate::ledger
