#include "tests/kernels/test_backends.h"

#include <kvgate/check.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/reference/reference_backend.h"

namespace kvgate::kernels {
namespace {

std::unique_ptr<Backend> MakeCpu(const std::string& target, int num_threads) {
  auto backend = cpu::MakeCpuBackend({.num_threads = num_threads, .target = target});
  KVGATE_CHECK(backend.has_value(), "a supported CPU target makes a backend");
  return std::move(*backend);
}

void AddCpuBackends(std::vector<BackendCase>& cases) {
  for (const std::string& target : cpu::SupportedCpuTargets()) {
    cases.push_back({.name = "cpu_" + target + "_1thread",
                     .make = [target] { return MakeCpu(target, 1); },
                     .make_twin = nullptr});
    cases.push_back({.name = "cpu_" + target + "_2threads",
                     .make = [target] { return MakeCpu(target, 2); },
                     .make_twin = [target] { return MakeCpu(target, 1); }});
  }
}

// x is rounded to 11 bits (kernels/cuda/cuda_backend.h), half a unit of which is 2^-11, and of
// quantized weights values and group scales too; an outlier's error stands beside its whole row.
void AddCudaBackend(std::vector<BackendCase>& cases) {
  cases.push_back({.name = "cuda_emulated",
                   .make =
                       [] {
                         auto backend = cuda::MakeCudaBackend({});
                         KVGATE_CHECK(backend.has_value(), "the emulated device makes a backend");
                         return std::move(*backend);
                       },
                   .make_twin = nullptr,
                   .cpu_kv_order = false,
                   .dense_bound = 1e-3,
                   .quant_bound = 1.5e-3,
                   .attention_bound = 2e-4,
                   .is_slow = true});
}

}  // namespace

std::vector<BackendCase> AllBackends() {
  std::vector<BackendCase> cases;
  cases.push_back(
      {.name = "reference", .make = reference::MakeReferenceBackend, .make_twin = nullptr});
  AddCpuBackends(cases);
  AddCudaBackend(cases);
  return cases;
}

void BackendTest::SetUp() {
  backend_ = GetParam().make();
  reference_ = reference::MakeReferenceBackend();
}

}  // namespace kvgate::kernels
