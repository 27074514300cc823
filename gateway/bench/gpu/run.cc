#include "gateway/bench/gpu/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "engine/model/weight_recipe.h"

namespace kvgate::bench::gpu {
namespace {

constexpr int kSequencesMax = 64;

Result<std::filesystem::path> MakeDirectory(const std::filesystem::path& wanted) {
  const std::filesystem::path parent =
      wanted.empty() ? std::filesystem::temp_directory_path() : wanted;
  std::error_code code;
  std::filesystem::create_directories(parent, code);
  std::string pattern = (parent / "kvgate-bench-gpu-XXXXXX").string();
  if (::mkdtemp(pattern.data()) != nullptr) return std::filesystem::path(pattern);
  return MakeError(ErrorCode::kIo, "bench",
                   fmt::format("cannot make a directory in {}", parent.string()), "dir");
}

}  // namespace

Run::Run(const RunOptions& options)
    : options_(options), figures_(options.is_json ? nullptr : options.out) {
  deadline_ = begin_ + std::chrono::duration_cast<Clock::duration>(
                           std::chrono::duration<double>(options.minutes * 60));
}

Run::~Run() {
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
}

Result<std::unique_ptr<Run>> Run::Open(const RunOptions& options) {
  std::unique_ptr<Run> run(new Run(options));
  const std::optional<Sizes> sizes = FindSizes(options.shape, options.is_quick);
  if (!sizes) {
    return MakeError(
        ErrorCode::kInvalidArgument, "bench",
        fmt::format("shape {} is not one of {}", options.shape, fmt::join(SizesNames(), ", ")),
        "shape");
  }
  run->sizes_ = *sizes;
  KVGATE_TRY(const std::string device, DescribeDevice(run->device()));
  KVGATE_TRY(run->directory_, MakeDirectory(options.directory));
  run->Say("limits");
  KVGATE_TRY(run->limits_, MeasureLimits(run->device()));
  run->figures_.AddFact("device", device);
  run->figures_.AddFact("shape", options.shape + (options.is_quick ? ", quick" : ""));
  return run;
}

void Run::Say(const std::string& what) const {
  if (options_.progress == nullptr) return;
  fmt::print(options_.progress, "[{:6.1f} s] {}\n", SecondsBetween(begin_, Clock::now()), what);
  std::fflush(options_.progress);
}

double Run::seconds_left() const { return std::max(0.1, SecondsBetween(Clock::now(), deadline_)); }

bool Run::IsCut(const std::string& part) {
  constexpr double kSecondsMin = 3;
  if (seconds_left() > kSecondsMin) return false;
  figures_.AddFact(part, "cut short: the time is over; run it with --only");
  return true;
}

Bound Run::Asked(Bound bound) const {
  return options_.is_cuda && options_.shape != "tiny" ? bound : Bound{};
}

uint64_t Run::host_bytes() const {
  if (options_.host_bytes > 0) return options_.host_bytes;
  return options_.is_cuda ? uint64_t{32} << 30 : sizes_.cpu_kv_bytes;
}

Result<std::shared_ptr<const modelfile::ModelFile>> Run::MakeFile(const std::string& dtype) const {
  const std::optional<model::WeightRecipe> recipe = model::FindRecipe(dtype);
  if (!recipe) {
    return MakeError(
        ErrorCode::kInvalidArgument, "bench",
        fmt::format("dtype {} is not one of {}", dtype, fmt::join(model::RecipeNames(), ", ")),
        "dtype");
  }
  Say(fmt::format("making {} in {}", options_.shape, dtype));
  model::MakeModelOptions shape = sizes_.shape;
  shape.dtype = recipe->dtype;
  shape.is_mixed = recipe->is_mixed;
  KVGATE_TRY(std::shared_ptr<const modelfile::ModelFile> file,
             model::MakeModelInMemory(shape, options_.cpu_threads));
  return file;
}

Result<OpenedEngine> Run::OpenEngine(std::shared_ptr<const modelfile::ModelFile> file,
                                     const EngineSize& size, bool is_fast) {
  Say("loading the model");
  KVGATE_TRY(LoadedModel loaded, LoadModel(device(is_fast), std::move(file), size.context_tokens));
  uint64_t kv_bytes = size.kv_bytes > 0 ? size.kv_bytes : options_.kv_bytes;
  // On a device 0 lets the engine take the memory that the model leaves free.
  if (kv_bytes == 0 && !options_.is_cuda) kv_bytes = sizes_.cpu_kv_bytes;
  DiskOptions disk;
  if (size.disk_bytes > 0) {
    disk = {.directory = size.disk_directory, .bytes_max = size.disk_bytes};
    if (disk.directory.empty()) {
      disk.directory = directory_ / fmt::format("new-{}", num_directories_++);
    }
  }
  return gpu::OpenEngine(
      std::move(loaded),
      {.context_tokens_max = size.context_tokens,
       .step_tokens_max = sizes_.step_tokens,
       .mixed_step_tokens_max =
           size.mixed_step_tokens > 0 ? size.mixed_step_tokens : sizes_.step_tokens,
       .sequences_max = kSequencesMax,
       .kv_bytes = kv_bytes,
       .host_bytes = size.host_bytes,
       .write_back_bytes_max = size.write_back_bytes,
       .io_threads = 4,
       .write_admission = size.write_admission},
      disk);
}

}  // namespace kvgate::bench::gpu
