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
  std::string name;  // letters, digits and _: part of the test's name
  std::function<std::unique_ptr<Backend>()> make;
  // Another backend of the same numerics id (fewer threads), or null where there is none.
  std::function<std::unique_ptr<Backend>()> make_twin;
  // KV blocks lie as KvArena documents it for the CPU, so their bytes compare with the reference's.
  bool cpu_kv_order = true;
  // Of a row's norm: MatMul with weights of 16 bits, with quantized ones; attention over KV of 16
  // bits or less, where a test does not allow more. What is f32 throughout is held to 1e-5.
  double dense_bound = 1e-5;
  double quant_bound = 2e-4;
  double attention_bound = 1e-5;

  // Takes minutes for what others do in a second: an emulated device. Its suites run every test
  // with fewer sizes (BackendTest::Sizes), at least one of each kind that kernels/cuda tells apart:
  // a row, 8 rows, a tile of rows and more; chunks of a row, past a KV block, whole.
  bool is_slow = false;

  double MatMulBound(DType dtype) const {
    if (DTypeElements(dtype) != 1) return quant_bound;
    return dtype == DType::kF32 ? 1e-5 : dense_bound;
  }

  friend void PrintTo(const BackendCase& value, std::ostream* out) { *out << value.name; }
};

std::vector<BackendCase> AllBackends();

// Makes the backend of the parameter, and the reference beside it.
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

// Every suite runs on every backend; the name is the backend's.
#define KVGATE_RUN_ON_ALL_BACKENDS(suite)          \
  INSTANTIATE_TEST_SUITE_P(                        \
      On, suite, testing::ValuesIn(AllBackends()), \
      [](const testing::TestParamInfo<BackendCase>& test_case) { return test_case.param.name; })

}  // namespace kvgate::kernels
