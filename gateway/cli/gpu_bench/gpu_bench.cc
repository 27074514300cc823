#include "gateway/cli/gpu_bench/gpu_bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <utility>

#include "gateway/cli/gpu_bench/agents.h"
#include "gateway/cli/gpu_bench/kernels.h"
#include "gateway/cli/gpu_bench/speed.h"
#include "gateway/cli/gpu_bench/tiers.h"

namespace kvgate::cli::gpu_bench {
namespace {

// No part begins with less than this left.
constexpr double kPartSecondsMin = 5;

bool IsWanted(const RunOptions& options, const char* part) {
  return options.parts.empty() || std::ranges::find(options.parts, part) != options.parts.end();
}

Result<void> CheckOptions(const RunOptions& options) {
  const std::vector<std::string> names = PartNames();
  for (const std::string& part : options.parts) {
    if (std::ranges::find(names, part) != names.end()) continue;
    return MakeError(ErrorCode::kInvalidArgument, "bench",
                     fmt::format("part {} is not one of {}", part, fmt::join(names, ", ")), "only");
  }
  if (options.dtypes.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "bench", "no dtype is given", "dtype");
  }
  if (options.minutes > 0) return {};
  return MakeError(ErrorCode::kInvalidArgument, "bench", "minutes must be positive", "minutes");
}

void AddLimits(Run& run) {
  const Limits& limits = run.limits();
  const auto add = [&run](const char* name, double measured, const char* unit) {
    run.figures().Add({.part = "limits", .name = name, .measured = measured, .unit = unit});
  };
  const bool is_cuda = run.options().is_cuda;
  add(is_cuda ? "device copy, read and written" : "memory, read",
      limits.read_bytes_per_second / 1e9, "GB/s");
  add(is_cuda ? "pinned host to device" : "host copy", limits.host_to_device_bytes_per_second / 1e9,
      "GB/s");
  add(is_cuda ? "device to pinned host" : "host copy back",
      limits.device_to_host_bytes_per_second / 1e9, "GB/s");
  add(is_cuda ? "f16 products, f32 sums" : "f32 multiply-adds", limits.operations_per_second / 1e12,
      "TFLOP/s");
}

// Runs a part, unless it is not wanted or there is no time left for it.
Result<void> RunPart(Run& run, const std::string& name, const std::function<Result<void>()>& part) {
  if (run.seconds_left() < kPartSecondsMin) {
    run.figures().AddFact(name, "left out: the time is over; run it with --only");
    return {};
  }
  return part();
}

Result<void> RunFirst(Run& run, const std::string& dtype) {
  const RunOptions& options = run.options();
  KVGATE_TRY(const std::shared_ptr<const model::ModelFile> file, run.MakeFile(dtype));
  if (IsWanted(options, "kernels")) {
    KVGATE_TRY_VOID(
        RunPart(run, "kernels", [&] { return MeasureKernels(run, file, {.dtype = dtype}); }));
  }
  const SpeedParts speed{.dtype = dtype,
                         .has_decode = IsWanted(options, "decode"),
                         .has_prefill = IsWanted(options, "prefill")};
  if (speed.has_decode || speed.has_prefill) {
    KVGATE_TRY_VOID(RunPart(run, "speed", [&] { return MeasureSpeed(run, file, speed); }));
  }
  if (IsWanted(options, "numerics")) {
    KVGATE_TRY_VOID(RunPart(run, "numerics", [&] { return MeasureNumerics(run, file, dtype); }));
  }
  if (IsWanted(options, "tiers")) {
    KVGATE_TRY_VOID(RunPart(run, "tiers", [&] { return MeasureTiers(run, file, dtype); }));
  }
  return {};
}

Result<void> RunOther(Run& run, const std::string& dtype) {
  const SpeedParts speed{.dtype = dtype,
                         .has_decode = IsWanted(run.options(), "decode"),
                         .has_prefill = IsWanted(run.options(), "prefill"),
                         .is_first = false};
  const bool has_kernels = IsWanted(run.options(), "kernels");
  if (!has_kernels && !speed.has_decode && !speed.has_prefill) return {};
  return RunPart(run, "speed " + dtype, [&]() -> Result<void> {
    KVGATE_TRY(const std::shared_ptr<const model::ModelFile> file, run.MakeFile(dtype));
    if (has_kernels) {
      KVGATE_TRY_VOID(MeasureKernels(run, file, {.dtype = dtype, .has_attention = false}));
    }
    if (!speed.has_decode && !speed.has_prefill) return {};
    return MeasureSpeed(run, file, speed);
  });
}

// The agents come last: they take what time is left.
Result<void> RunAll(Run& run) {
  const std::vector<std::string>& dtypes = run.options().dtypes;
  KVGATE_TRY_VOID(RunFirst(run, dtypes[0]));
  for (size_t i = 1; i < dtypes.size(); ++i) KVGATE_TRY_VOID(RunOther(run, dtypes[i]));
  if (!IsWanted(run.options(), "agents")) return {};
  return RunPart(run, "agents", [&]() -> Result<void> {
    KVGATE_TRY(const std::shared_ptr<const model::ModelFile> file, run.MakeFile(dtypes[0]));
    return MeasureAgents(run, file, dtypes[0]);
  });
}

Result<void> WriteJson(const std::filesystem::path& path, const Figures& figures) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (file << figures.Json() << std::flush) return {};
  return MakeError(ErrorCode::kIo, "bench", fmt::format("cannot write {}", path.string()),
                   "json_file");
}

}  // namespace

std::vector<std::string> PartNames() {
  return {"kernels", "decode", "prefill", "numerics", "tiers", "agents"};
}

Result<bool> RunGpuBench(const RunOptions& options) {
  KVGATE_TRY_VOID(CheckOptions(options));
  KVGATE_TRY(const std::unique_ptr<Run> run, Run::Open(options));
  AddLimits(*run);
  const Result<void> done = RunAll(*run);
  if (options.is_json) {
    fmt::print(options.out, "{}", run->figures().Json());
  } else {
    fmt::print(options.out, "\n{} figures, {} missed\n", run->figures().figures().size(),
               run->figures().num_missed());
  }
  std::fflush(options.out);
  if (!done) return done.error();
  if (!options.json_file.empty()) KVGATE_TRY_VOID(WriteJson(options.json_file, run->figures()));
  return run->figures().num_missed() == 0;
}

}  // namespace kvgate::cli::gpu_bench
