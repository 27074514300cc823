#include "tests/kernels/test_backends.h"

#include "base/check.h"
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

// Returns the plainest target with the numerics of `target`: itself, or AVX2 for better ones.
std::string PlainestOf(const std::string& target) {
  const std::string id = MakeCpu(target, 1)->Info().numerics_id;
  std::string plainest = target;
  for (const std::string& other : cpu::SupportedCpuTargets()) {  // best first
    if (MakeCpu(other, 1)->Info().numerics_id == id) plainest = other;
  }
  return plainest;
}

void AddCpuBackends(std::vector<BackendCase>& cases) {
  const std::vector<std::string> targets = cpu::SupportedCpuTargets();
  for (const std::string& target : targets) {
    const std::string plainest = PlainestOf(target);
    if (plainest != target) {
      // The target must match the bits of its twin. Targets between that and the best share the
      // code of the best except for products of many rows, so they run fewer sizes.
      cases.push_back({.name = "cpu_" + target + "_2threads",
                       .make = [target] { return MakeCpu(target, 2); },
                       .make_twin = [plainest] { return MakeCpu(plainest, 1); },
                       .is_slow = target != targets.front()});
      continue;
    }
    cases.push_back({.name = "cpu_" + target + "_1thread",
                     .make = [target] { return MakeCpu(target, 1); },
                     .make_twin = nullptr});
    cases.push_back({.name = "cpu_" + target + "_2threads",
                     .make = [target] { return MakeCpu(target, 2); },
                     .make_twin = [target] { return MakeCpu(target, 1); }});
  }
}

// x is rounded to 11 bits (kernels/cuda/cuda_backend.h), half a unit of which is 2^-11, and so are
// values and group scales of quantized weights. An outlier's error counts against its whole row.
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
