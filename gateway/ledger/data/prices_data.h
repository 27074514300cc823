// The text of prices.json, which is built into the program.
#pragma once

namespace kvgate::ledger::data {

extern const char* const kPricesJson;

}  // namespace kvgate::ledger::data
