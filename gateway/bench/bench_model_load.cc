#include "gateway/bench/bench_model_load.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "engine/model/model.h"
#include "engine/modelfile/gguf.h"
#include "gateway/bench/bench_file.h"
#include "kernels/cpu/cpu_backend.h"

namespace kvgate::bench {
namespace {

using Clock = std::chrono::steady_clock;

Error IoError(std::string_view what, const std::filesystem::path& path) {
  return MakeError(ErrorCode::kIo, "bench", fmt::format("cannot {} {}", what, path.string()));
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags) : fd_(open(path.c_str(), flags)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Seconds to read the whole file, bypassing the page cache (extra_flags: O_DIRECT) or through an
// empty one. Returns nullopt if the file cannot be read that way.
std::optional<double> SecondsToRead(const std::filesystem::path& path, int extra_flags) {
  constexpr size_t kAtOnce = size_t{8} << 20;
  constexpr size_t kAlignment = 4096;
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::aligned_alloc(kAlignment, kAtOnce),
                                                           &std::free);
  const Descriptor file(path, O_RDONLY | O_CLOEXEC | extra_flags);
  if (buffer == nullptr || file.get() < 0) return std::nullopt;
  const auto start = Clock::now();
  ssize_t count = 0;
  do {
    count = read(file.get(), buffer.get(), kAtOnce);
  } while (count > 0);
  if (count < 0) return std::nullopt;
  return SecondsSince(start);
}

// A value of /proc/self/status, in bytes.
Result<uint64_t> StatusBytes(std::string_view key) {
  std::ifstream file("/proc/self/status");
  std::string word;
  uint64_t kib = 0;
  while (file >> word) {
    if (word == key && file >> kib) return kib * 1024;
  }
  return IoError("read " + std::string(key) + " of", "/proc/self/status");
}

// Resets the peak of the process's memory.
Result<void> ForgetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  if (!(file << "5" << std::flush)) return IoError("write", "/proc/self/clear_refs");
  return {};
}

struct LoadFigures {
  double file_bytes = 0;
  double kv_bytes = 0;
  double read_seconds = std::numeric_limits<double>::infinity();
  double ready_seconds = std::numeric_limits<double>::infinity();
  uint64_t peak_bytes = 0;

  double ready_per_read() const { return ready_seconds / read_seconds; }
  double peak_bytes_max() const {
    return kPeakPerFileMax * file_bytes + kv_bytes + static_cast<double>(kPeakElseBytes);
  }
  bool is_within() const {
    return ready_per_read() <= kReadyPerReadMax &&
           static_cast<double>(peak_bytes) <= peak_bytes_max();
  }
};

// Returns the faster of two methods: direct reads one at a time, or the kernel's read-ahead.
Result<double> MeasureRead(const std::filesystem::path& path) {
  KVGATE_TRY_VOID(ForgetFile(path));
  const std::optional<double> direct = SecondsToRead(path, O_DIRECT);
  KVGATE_TRY_VOID(ForgetFile(path));
  const std::optional<double> buffered = SecondsToRead(path, 0);
  if (!buffered) return IoError("read", path);
  return std::min(*buffered, direct.value_or(*buffered));
}

// Loads as an engine does: file, backend, weights, activations, KV blocks.
Result<void> MeasureLoad(const std::filesystem::path& path, const BenchModelLoadOptions& options,
                         LoadFigures& figures) {
  constexpr int kStepTokens = 512;
  KVGATE_TRY_VOID(ForgetFile(path));
  KVGATE_TRY_VOID(ForgetPeak());
  const auto start = Clock::now();
  KVGATE_TRY(std::unique_ptr<modelfile::GgufFile> opened, modelfile::GgufFile::Open(path));
  const std::shared_ptr<const modelfile::GgufFile> file = std::move(opened);
  KVGATE_TRY(const auto backend,
             kernels::cpu::MakeCpuBackend({.num_threads = options.threads, .target = ""}));
  KVGATE_TRY(const auto loaded, model::Model::Load(file, *backend));
  KVGATE_TRY_VOID(loaded->Reserve(kStepTokens, 1));
  const kernels::KvShape kv = loaded->config().kv_shape(kernels::DType::kF16);
  const auto num_blocks =
      std::max<uint32_t>(1, static_cast<uint32_t>(options.kv_bytes / kv.block_bytes()));
  KVGATE_TRY(const auto arena, backend->AllocateKv(kv, num_blocks));
  figures.ready_seconds = std::min(figures.ready_seconds, SecondsSince(start));
  figures.kv_bytes = static_cast<double>(arena->block_bytes()) * num_blocks;
  KVGATE_TRY(const uint64_t peak, StatusBytes("VmHWM:"));
  figures.peak_bytes = std::max(figures.peak_bytes, peak);
  return {};
}

Result<LoadFigures> MeasureFile(const std::filesystem::path& path,
                                const BenchModelLoadOptions& options) {
  LoadFigures figures;
  figures.file_bytes = static_cast<double>(std::filesystem::file_size(path));
  for (int i = 0; i < options.repetitions; ++i) {
    KVGATE_TRY(const double seconds, MeasureRead(path));
    figures.read_seconds = std::min(figures.read_seconds, seconds);
    KVGATE_TRY_VOID(MeasureLoad(path, options, figures));
  }
  return figures;
}

void PrintFigures(std::FILE* out, const std::string& type, const LoadFigures& figures) {
  constexpr double kMib = 1 << 20;
  const double peak = static_cast<double>(figures.peak_bytes);
  fmt::print(out, "{:<8}{:>10.0f}{:>10.2f}{:>10.2f}{:>9.2f}{:>8.0f}%{:>12.0f}{:>12.0f}{:>8.0f}%\n",
             type, figures.file_bytes / kMib, figures.read_seconds, figures.ready_seconds,
             figures.ready_per_read(), 100 * figures.ready_per_read() / kReadyPerReadMax,
             peak / kMib, figures.peak_bytes_max() / kMib, 100 * peak / figures.peak_bytes_max());
  std::fflush(out);
}

}  // namespace

Result<bool> RunBenchModelLoad(const BenchModelLoadOptions& options) {
  if (options.repetitions < 1) {
    return MakeError(ErrorCode::kInvalidArgument, "bench", "repetitions must be positive",
                     "repetitions");
  }
  fmt::print(options.out, "{:<8}{:>10}{:>10}{:>10}{:>9}{:>9}{:>12}{:>12}{:>9}\n", "type",
             "file MiB", "read s", "ready s", "ratio", "of 2.0", "peak MiB", "limit MiB",
             "of limit");
  bool is_within = true;
  for (const std::string& type : options.types) {
    KVGATE_TRY(const auto file, BenchFile::MakeAs(type, options.shape, options.cache_directory));
    KVGATE_TRY(const LoadFigures figures, MeasureFile(file->path(), options));
    PrintFigures(options.out, type, figures);
    is_within = is_within && figures.is_within();
  }
  return is_within;
}

}  // namespace kvgate::bench
