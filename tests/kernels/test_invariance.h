// The fixture of tests that compare the bits of one computation done in several ways.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/kernels/test_backends.h"

namespace kvgate::kernels {

class Invariance : public BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!backend_->Info().invariant) GTEST_SKIP() << "this backend does not claim invariance";
    if (GetParam().make_twin != nullptr) twin_ = GetParam().make_twin();
  }

  // Returns the backend and, if there is one, its twin with another thread count.
  std::vector<Backend*> Backends() const {
    std::vector<Backend*> backends{backend_.get()};
    if (twin_ != nullptr) backends.push_back(twin_.get());
    return backends;
  }

  std::unique_ptr<Backend> twin_;
};

}  // namespace kvgate::kernels
