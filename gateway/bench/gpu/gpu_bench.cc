#include "gateway/bench/gpu/gpu_bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "gateway/bench/gpu/agents.h"
#include "gateway/bench/gpu/kernels.h"
#include "gateway/bench/gpu/speed.h"
#include "gateway/bench/gpu/tiers.h"

namespace kvgate::bench::gpu {
namespace {

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

// Runs part by part. If one fails the others still run, because time on a device is scarce.
class PartRunner {
 public:
  explicit PartRunner(Run& run) : run_(run), options_(run.options()) {}

  // The agents come last, because they take all remaining time.
  void RunAll() {
    RunFirst(options_.dtypes[0]);
    for (size_t i = 1; i < options_.dtypes.size(); ++i) RunOther(options_.dtypes[i]);
    if (!IsWanted(options_, "agents")) return;
    const std::string& dtype = options_.dtypes[0];
    RunPart("agents", [&]() -> Result<void> {
      KVGATE_TRY(const auto file, run_.MakeFile(dtype));
      return MeasureAgents(run_, file, dtype);
    });
  }

  // The error of the first part that failed.
  const std::optional<Error>& error() const { return error_; }

 private:
  void RunPart(const std::string& name, const std::function<Result<void>()>& part) {
    if (run_.IsCut(name)) return;
    const Result<void> done = part();
    if (done) return;
    // Running out of time is not a failure.
    const bool is_late = done.error().code == ErrorCode::kDeadline;
    run_.figures().AddFact(name, (is_late ? "cut short: " : "FAILED: ") + done.error().ToString());
    if (!is_late && !error_) error_ = done.error();
  }

  void RunFirst(const std::string& dtype) {
    const bool has_speed = IsWanted(options_, "decode") || IsWanted(options_, "prefill");
    std::shared_ptr<const modelfile::ModelFile> file;
    const auto run_one = [&](const char* name, bool is_wanted, auto measure) {
      if (!is_wanted) return;
      RunPart(name, [&]() -> Result<void> {
        if (file == nullptr) {
          KVGATE_TRY(file, run_.MakeFile(dtype));
        }
        return measure();
      });
    };
    run_one("kernels", IsWanted(options_, "kernels"),
            [&] { return MeasureKernels(run_, file, {.dtype = dtype}); });
    run_one("speed", has_speed,
            [&] { return MeasureSpeed(run_, file, Speed(dtype, /*is_first=*/true)); });
    run_one("numerics", IsWanted(options_, "numerics"),
            [&] { return MeasureNumerics(run_, file, dtype); });
    run_one("tiers", IsWanted(options_, "tiers"), [&] { return MeasureTiers(run_, file, dtype); });
  }

  void RunOther(const std::string& dtype) {
    const SpeedParts speed = Speed(dtype, /*is_first=*/false);
    const bool has_kernels = IsWanted(options_, "kernels");
    if (!has_kernels && !speed.has_decode && !speed.has_prefill) return;
    RunPart("speed " + dtype, [&]() -> Result<void> {
      KVGATE_TRY(const auto file, run_.MakeFile(dtype));
      if (has_kernels) {
        KVGATE_TRY_VOID(MeasureKernels(run_, file, {.dtype = dtype, .has_attention = false}));
      }
      if (!speed.has_decode && !speed.has_prefill) return {};
      return MeasureSpeed(run_, file, speed);
    });
  }

  SpeedParts Speed(const std::string& dtype, bool is_first) const {
    return {.dtype = dtype,
            .has_decode = IsWanted(options_, "decode"),
            .has_prefill = IsWanted(options_, "prefill"),
            .is_first = is_first};
  }

  Run& run_;
  const RunOptions& options_;
  std::optional<Error> error_;
};

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
  PartRunner parts(*run);
  parts.RunAll();
  if (options.is_json) {
    fmt::print(options.out, "{}", run->figures().Json());
  } else {
    fmt::print(options.out, "\n{} figures, {} missed\n", run->figures().figures().size(),
               run->figures().num_missed());
  }
  std::fflush(options.out);
  if (!options.json_file.empty()) KVGATE_TRY_VOID(WriteJson(options.json_file, run->figures()));
  if (parts.error()) return *parts.error();
  return run->figures().num_missed() == 0;
}

}  // namespace kvgate::bench::gpu
