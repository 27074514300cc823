// Tiers: time to the first token of prompts whose prefix is cold, in device memory, in the host
// arena, on disk.
#pragma once

#include <memory>
#include <string>

#include "gateway/cli/gpu_bench/run.h"

namespace kvgate::cli::gpu_bench {

// Each prefix is asked for cold; others push it down to the host arena; it comes back from there,
// and is then asked for where it is. From disk it comes in a new engine, as after a restart, with
// the page cache emptied. Each figure says where its tokens really came from.
Result<void> MeasureTiers(Run& run, std::shared_ptr<const model::ModelFile> file,
                          const std::string& dtype);

// "device 97 %, computed 3 %"
std::string SourceText(const engine::RequestStats& stats);

}  // namespace kvgate::cli::gpu_bench
