#include "kernels/cpu/machine/amx.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace kvgate::kernels::cpu::machine {
namespace {

TEST(HasAmxTest, TheAnswerHasAReasonAndMakesATarget) {
  EXPECT_EQ(HasAmx(), WhyNoAmx().empty());
  const std::vector<std::string> targets = SupportedCpuTargets();
  const bool has_vnni = std::ranges::find(targets, "AVX512_VNNI") != targets.end();
  EXPECT_EQ(targets.front() == "AMX", HasAmx() && has_vnni);
  EXPECT_EQ(MissingCpuTargets().empty(), !has_vnni || HasAmx());
}

}  // namespace
}  // namespace kvgate::kernels::cpu::machine
