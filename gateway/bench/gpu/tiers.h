// Tiers: TTFT of prompts whose prefix is cold, in device memory, in the host arena or on disk.
#pragma once

#include <memory>
#include <string>

#include "gateway/bench/gpu/run.h"

namespace kvgate::bench::gpu {

// Each prefix is requested cold; other prompts evict it to the host arena; it is loaded back from
// there, and then requested again from the device. For the disk a new engine is opened, as after a
// restart, with the page cache emptied. Each figure shows from which tier its tokens really came.
Result<void> MeasureTiers(Run& run, std::shared_ptr<const modelfile::ModelFile> file,
                          const std::string& dtype);

// "device 97.2 %, computed 2.8 %".
std::string SourceText(const engine::RequestStats& stats);

}  // namespace kvgate::bench::gpu
