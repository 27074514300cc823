// The backends that the conformance and invariance suites run on, and the fixture that makes one.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace kvgate::kernels {

struct BackendCase {
  std::string name;  // letters, digits and _; part of the test's name
  std::function<std::unique_ptr<Backend>()> make;
  // Makes another backend of the same numerics id (fewer threads); null if there is none.
  std::function<std::unique_ptr<Backend>()> make_twin;
  // True if KV blocks have the layout that KvArena documents for the CPU, so that their bytes can
  // be compared with the reference's.
  bool cpu_kv_order = true;
  // Bounds relative to a row's norm: MatMul with 16-bit weights, MatMul with quantized weights, and
  // attention over KV of 16 bits or less unless a test allows more. Pure f32 has 1e-5.
  double dense_bound = 1e-5;
  double quant_bound = 2e-4;
  double attention_bound = 1e-5;

  // Set for an emulated device, which takes minutes for what others do in a second. Its suites run
  // every test with fewer sizes (BackendTest::Sizes), at least one for each case of kernels/cuda:
  // one row, 8 rows, a tile of rows and more; chunks of one row, past a KV block, whole.
  bool is_slow = false;

  double MatMulBound(DType dtype) const {
    if (DTypeElements(dtype) != 1) return quant_bound;
    return dtype == DType::kF32 ? 1e-5 : dense_bound;
  }

  friend void PrintTo(const BackendCase& value, std::ostream* out) { *out << value.name; }
};

std::vector<BackendCase> AllBackends();

// Makes the backend of the parameter, and a reference backend.
class BackendTest : public testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override;

  template <typename T>
  static std::vector<T> Sizes(std::initializer_list<T> all, std::initializer_list<T> few) {
    return GetParam().is_slow ? few : all;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> reference_;
};

// Runs a suite on every backend, under the backend's name.
#define KVGATE_RUN_ON_ALL_BACKENDS(suite)          \
  INSTANTIATE_TEST_SUITE_P(                        \
      On, suite, testing::ValuesIn(AllBackends()), \
      [](const testing::TestParamInfo<BackendCase>& test_case) { return test_case.param.name; })

}  // namespace kvgate::kernels
