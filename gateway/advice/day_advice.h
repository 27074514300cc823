// DayAdvice reads the records of the last day from a ledger and says what they advise to change.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/ledger/ledger.h"

namespace kvgate::advice {

// Returns JSON as /kvgate/v1/advice gives it; with a tenant, of its requests alone. It may wait for
// the disk. Fails as Ledger::Visit does.
Result<std::string> AdviseDay(ledger::Ledger& ledger, std::optional<std::string_view> tenant = {});

}  // namespace kvgate::advice
