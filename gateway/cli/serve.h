// Serving, for the commands that do it: `serve`, and `record`, which keeps a trace beside it.
#pragma once

#include <functional>
#include <memory>

#include <kvgate/result.h>

#include "gateway/cli/options.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::cli {

// Puts another log in front of the ledger, which outlives it.
using WrapLog =
    std::function<std::unique_ptr<upstream::ExchangeLog>(upstream::ExchangeLog& ledger)>;

// Until a signal ends it. `wrap` may be empty.
Result<int> Serve(const ConfigFlags& flags, const WrapLog& wrap);

}  // namespace kvgate::cli
