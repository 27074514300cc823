// Serving, for `serve` and for `record`, which also writes a trace.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "gateway/cli/options.h"
#include "gateway/upstream/exchange_observer.h"

namespace kvgate::cli {

// Wraps the ledger in another log; the ledger outlives it.
using WrapLog =
    std::function<std::unique_ptr<upstream::ExchangeLog>(upstream::ExchangeLog& ledger)>;

// Serves until a signal ends it. `wrap` may be empty.
Result<int> Serve(const ConfigFlags& flags, const WrapLog& wrap);

}  // namespace kvgate::cli
