// Serving, for `serve` and for `record`, which also writes a trace.
#pragma once

#include "base/result.h"
#include "gateway/cli/options.h"
#include "gateway/runtime/runtime.h"

namespace kvgate::cli {

// Serves until a signal ends it. `wrap` may be empty.
Result<int> Serve(const ConfigFlags& flags, const runtime::WrapLog& wrap);

}  // namespace kvgate::cli
