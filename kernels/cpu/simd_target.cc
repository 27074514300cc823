#include "kernels/cpu/simd_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <hwy/highway.h>

namespace kvgate::kernels::cpu {
namespace {

std::mutex& DispatchMutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

std::vector<int64_t> SupportedTargets() {
  const std::lock_guard lock(DispatchMutex());
  return hwy::SupportedAndGeneratedTargets();  // rising bits: best first
}

std::string TargetName(int64_t target) { return hwy::TargetName(target); }

Result<int64_t> FindTarget(std::string_view name) {
  const std::vector<int64_t> targets = SupportedTargets();
  if (name.empty()) return targets.front();
  std::vector<std::string> names;
  for (const int64_t target : targets) {
    names.push_back(TargetName(target));
    if (names.back() == name) return target;
  }
  return MakeError(ErrorCode::kUnsupported, "kernels.cpu",
                   fmt::format("SIMD target '{}' is not one this build and machine have: {}", name,
                               fmt::join(names, ", ")));
}

ScopedTarget::ScopedTarget(int64_t target) : lock_(DispatchMutex()) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

ScopedTarget::~ScopedTarget() {
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace kvgate::kernels::cpu
