// The keys of rollups: one row for each step of time, scope, dimension and name. Their order is
// that of time, so that a span of time is one run of rows, and old ones are dropped from the front.
// Pure; any thread may call it.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvgate::ledger::rollup {

enum class Step : uint8_t { kMinute, kHour, kDay };
inline constexpr size_t kNumSteps = 3;
inline constexpr std::array<Step, kNumSteps> kSteps = {Step::kMinute, Step::kHour, Step::kDay};
std::string_view StepName(Step step);  // "minute"
std::optional<Step> ParseStep(std::string_view name);
int64_t StepMinutes(Step step);
// How long its rows are kept.
int64_t RetentionMinutes(Step step);

// What the names of a row are.
enum class By : uint8_t {
  kTotal,
  kSource,
  kModel,
  kUpstream,
  kTenant,
  kKey,
  kSession,
  kPrompt,
  kBreak,
  kTool,
  kServer,
  kPromptVersion,  // of the gateway's prompts: "NAME@VERSION"
};
inline constexpr size_t kNumBys = 12;
std::string_view ByName(By by);  // "model"
std::optional<By> ParseBy(std::string_view name);

// Names of one row's group, "other" included; further ones count as "other".
inline constexpr size_t kNamesMax = 256;
inline constexpr size_t kNameBytesMax = 128;
inline constexpr std::string_view kOther = "other";

inline constexpr int64_t kMinuteUs = 60'000'000;
// Returns the first minute, since 1970, of the step that the minute is in.
int64_t BeginOf(Step step, int64_t minute);

// Names the requests that a row counts: everybody's, or those of one tenant.
std::string ScopeOfAll();
std::string ScopeOfTenant(std::string_view tenant);

struct Group {
  Step step = Step::kMinute;
  int64_t minute = 0;  // since 1970, where the step begins
  std::string scope = {};
  By by = By::kTotal;
  friend auto operator<=>(const Group&, const Group&) = default;
};
// "u/m/" and the minute in hex: what all rows of that step and time begin with.
std::string TimePrefix(Step step, int64_t minute);
// What the keys of the group's rows begin with; its name follows.
std::string GroupPrefix(const Group& group);
// Returns the minute of a row's key; nullopt if it is none of that step.
std::optional<int64_t> MinuteOfKey(Step step, std::string_view key);

}  // namespace kvgate::ledger::rollup
