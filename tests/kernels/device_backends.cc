// The backends of kernels_device_test, which runs the conformance suite on a real device. Without a
// device every case is skipped by name.
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/test_backends.h"

namespace kvgate::kernels {
namespace {

// Returns null if libcublasLt for fast numerics is missing; any other failure fails the test.
std::unique_ptr<Backend> MakeCuda(const cuda::CudaBackendOptions& options) {
  auto backend = cuda::MakeCudaBackend(options);
  if (backend) return std::move(*backend);
  if (backend.error().code != ErrorCode::kUnsupported) {
    ADD_FAILURE() << backend.error().ToString();
  }
  return nullptr;
}

BackendCase CudaCase(const std::string& name, const cuda::CudaBackendOptions& options) {
  return {.name = name,
          .make = [options] { return MakeCuda(options); },
          .make_twin = nullptr,
          .cpu_kv_order = false,
          .dense_bound = 1e-3,
          .quant_bound = 1.5e-3,
          .attention_bound = 2e-4};
}

}  // namespace

std::vector<BackendCase> AllBackends() {
  return {CudaCase("cuda_device", {}), CudaCase("cuda_device_fast", {.is_fast = true})};
}

void BackendTest::SetUp() {
  const auto devices = cuda::FindCudaDevices();
  ASSERT_TRUE(devices.has_value()) << devices.error().ToString();
  if (devices->empty()) GTEST_SKIP() << "no CUDA device";
  backend_ = GetParam().make();
  if (backend_ == nullptr) GTEST_SKIP() << "no libcublasLt for fast numerics";
  reference_ = reference::MakeReferenceBackend();
}

}  // namespace kvgate::kernels
