#include "kernels/cpu/machine/simd_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include <hwy/highway.h>

#include "kernels/cpu/machine/amx.h"

namespace kvgate::kernels::cpu::machine {
namespace {

char ToUpper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

std::mutex& DispatchMutex() {
  static std::mutex mutex;
  return mutex;
}

std::vector<int64_t> FindTargets() {
  std::vector<int64_t> targets;
  {
    const std::lock_guard lock(DispatchMutex());
    targets = hwy::SupportedAndGeneratedTargets();  // ascending bits: best first
  }
  if (targets.front() == HWY_AVX3_DL && HasAmx()) {
    targets.insert(targets.begin(), HWY_AVX3_DL | kAmxBit);
  }
  return targets;
}

}  // namespace

const std::vector<int64_t>& SupportedTargets() {
  // The instruction that asks the processor takes a tenth of a millisecond in a virtual machine.
  static const std::vector<int64_t> targets = FindTargets();
  return targets;
}

std::string TargetName(int64_t target) {
  if ((target & kAmxBit) != 0) return "AMX";
  if (target == HWY_AVX3_DL) return "AVX512_VNNI";
  if (target == HWY_AVX3) return "AVX512";
  return hwy::TargetName(target);
}

bool HasFusedNumerics(int64_t target) {
  return ((target & ~kAmxBit) & (HWY_AVX3_DL | HWY_AVX3 | HWY_AVX2)) != 0;
}

Result<int64_t> FindTarget(std::string_view name) {
  const std::vector<int64_t>& targets = SupportedTargets();
  if (name.empty()) return targets.front();
  std::vector<std::string> names;
  for (const int64_t target : targets) {
    names.push_back(TargetName(target));
    if (std::ranges::equal(names.back(), name, {}, ToUpper, ToUpper)) return target;
  }
  return MakeError(ErrorCode::kUnsupported, "kernels.cpu",
                   fmt::format("SIMD target '{}' is not one this build and machine have: {}", name,
                               fmt::join(names, ", ")),
                   "cpu_target");
}

ScopedTarget::ScopedTarget(int64_t target) : lock_(DispatchMutex()) {
  hwy::SetSupportedTargetsForTest(target & ~kAmxBit);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

ScopedTarget::~ScopedTarget() {
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace kvgate::kernels::cpu::machine
