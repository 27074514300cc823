// The backends that the conformance and invariance suites run on, and the fixture that makes one.
#pragma once

#include <gtest/gtest.h>

#include <functional>
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

  friend void PrintTo(const BackendCase& value, std::ostream* out) { *out << value.name; }
};

std::vector<BackendCase> AllBackends();

// Makes the backend of the parameter, and the reference beside it.
class BackendTest : public testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override;

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> reference_;
};

// Every suite runs on every backend; the name is the backend's.
#define KVGATE_RUN_ON_ALL_BACKENDS(suite)          \
  INSTANTIATE_TEST_SUITE_P(                        \
      On, suite, testing::ValuesIn(AllBackends()), \
      [](const testing::TestParamInfo<BackendCase>& test_case) { return test_case.param.name; })

}  // namespace kvgate::kernels
