// Run: the state that the parts of one benchmark run share: options, sizes, limits, the figures so
// far, and the remaining time.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/bench/gpu/device.h"
#include "gateway/bench/gpu/figures.h"
#include "gateway/bench/gpu/requests.h"
#include "gateway/bench/gpu/sizes.h"

namespace kvgate::bench::gpu {

struct RunOptions {
  std::string shape = "llama-3.1-8b";
  // Weight formats; all parts run with the first.
  std::vector<std::string> dtypes = {"bf16", "q8_0", "q4_k"};
  bool is_cuda = true;
  std::vector<std::string> parts = {};  // of PartNames(); empty: all
  bool is_quick = false;
  bool is_json = false;                  // print JSON, not the table
  std::filesystem::path json_file = {};  // also write it here; empty: nowhere
  double minutes = 9;  // for all parts; parts that do not fit are cut short and reported so
  int cpu_threads = 0;
  uint64_t kv_bytes = 0;    // of the pool for decode, prefill and agents; 0: what is free
  uint64_t host_bytes = 0;  // of the agents' host arena; 0: 32 GiB; on the CPU like the pool
  uint64_t disk_bytes = uint64_t{24} << 30;
  // The run makes a directory in it for the disk tier and removes it at the end; empty: the
  // temporary directory.
  std::filesystem::path directory = {};
  std::FILE* out = stdout;
  std::FILE* progress = stderr;
};

struct EngineSize {
  uint64_t kv_bytes = 0;  // 0: as RunOptions::kv_bytes
  uint64_t host_bytes = 0;
  uint64_t disk_bytes = 0;  // 0: no disk tier
  // Directory of the disk tier, below Run::directory(); empty: a new one.
  std::filesystem::path disk_directory = {};
  int context_tokens = 0;
  int mixed_step_tokens = 0;  // 0: as a step without decodes
  uint64_t write_back_bytes = uint64_t{256} << 20;
  std::shared_ptr<tier::WriteAdmission> write_admission = {};
};

class Run {
 public:
  // Fails with kUnavailable if there is no such device, and with kInvalidArgument, naming an
  // unknown option.
  static Result<std::unique_ptr<Run>> Open(const RunOptions& options);
  // Removes the run's directory.
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  const RunOptions& options() const { return options_; }
  const Sizes& sizes() const { return sizes_; }
  const Limits& limits() const { return limits_; }
  Figures& figures() { return figures_; }

  // Prints what begins now to the progress stream.
  void Say(const std::string& what) const;
  double seconds_left() const;  // never 0
  // Returns true if the time is over, and then records that the part was cut short.
  bool IsCut(const std::string& part);
  // Returns `bound` if it applies, that is for the real shape on a device; else no bound.
  Bound Asked(Bound bound) const;

  // Options for the device with invariant numerics, unless is_fast.
  DeviceOptions device(bool is_fast = false) const {
    return {.is_cuda = options_.is_cuda, .cpu_threads = options_.cpu_threads, .is_fast = is_fast};
  }
  Result<std::shared_ptr<const modelfile::ModelFile>> MakeFile(const std::string& dtype) const;
  // Loads the model again and says so on the progress stream, as it takes seconds.
  Result<OpenedEngine> OpenEngine(std::shared_ptr<const modelfile::ModelFile> file,
                                  const EngineSize& size, bool is_fast = false);
  uint64_t host_bytes() const;
  const std::filesystem::path& directory() const { return directory_; }

 private:
  explicit Run(const RunOptions& options);

  RunOptions options_;
  Sizes sizes_;
  Limits limits_;
  Figures figures_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point deadline_;
  std::filesystem::path directory_;  // the run's own
  int num_directories_ = 0;          // made in it
};

}  // namespace kvgate::bench::gpu
