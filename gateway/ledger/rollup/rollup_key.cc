#include "gateway/ledger/rollup/rollup_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "base/digest.h"

namespace kvgate::ledger::rollup {
namespace {

constexpr std::array<std::string_view, kNumSteps> kStepNames = {"minute", "hour", "day"};
constexpr std::array<int64_t, kNumSteps> kStepMinutes = {1, 60, 1'440};
constexpr std::array<int64_t, kNumSteps> kRetention = {48 * 60, 60 * 1'440, 3 * 366 * 1'440};
constexpr std::array<std::string_view, kNumBys> kByNames = {
    "total",   "source", "model", "upstream", "tenant", "key",
    "session", "prompt", "break", "tool",     "server", "prompt_version"};
constexpr size_t kMinuteDigits = 8;
constexpr size_t kScopeBytes = 16;

template <typename Name, size_t kSize>
std::optional<Name> Parse(const std::array<std::string_view, kSize>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Name>(found - names.begin());
}

std::string StepPrefix(Step step) { return fmt::format("u/{}/", StepName(step).front()); }

}  // namespace

std::string_view StepName(Step step) { return kStepNames[static_cast<size_t>(step)]; }
std::optional<Step> ParseStep(std::string_view name) { return Parse<Step>(kStepNames, name); }
int64_t StepMinutes(Step step) { return kStepMinutes[static_cast<size_t>(step)]; }
int64_t RetentionMinutes(Step step) { return kRetention[static_cast<size_t>(step)]; }
std::string_view ByName(By by) { return kByNames[static_cast<size_t>(by)]; }
std::optional<By> ParseBy(std::string_view name) { return Parse<By>(kByNames, name); }

int64_t BeginOf(Step step, int64_t minute) {
  const int64_t size = StepMinutes(step);
  return minute - ((minute % size) + size) % size;
}

std::string ScopeOfAll() { return "*"; }

std::string ScopeOfTenant(std::string_view tenant) {
  const PrefixDigest digest = ThreadSha256().Update(tenant).Finish();
  return ToHex(std::span(digest.bytes).first(kScopeBytes));
}

std::string TimePrefix(Step step, int64_t minute) {
  return fmt::format("{}{:08x}", StepPrefix(step), std::max<int64_t>(minute, 0));
}

std::string GroupPrefix(const Group& group) {
  return fmt::format("{}/{}/{}/", TimePrefix(group.step, group.minute), group.scope,
                     ByName(group.by));
}

std::optional<int64_t> MinuteOfKey(Step step, std::string_view key) {
  const std::string prefix = StepPrefix(step);
  if (!key.starts_with(prefix) || key.size() < prefix.size() + kMinuteDigits) return std::nullopt;
  const std::string_view digits = key.substr(prefix.size(), kMinuteDigits);
  int64_t minute = 0;
  const auto [at, code] = std::from_chars(digits.data(), digits.data() + digits.size(), minute, 16);
  if (code != std::errc() || at != digits.data() + digits.size()) return std::nullopt;
  return minute;
}

}  // namespace kvgate::ledger::rollup
