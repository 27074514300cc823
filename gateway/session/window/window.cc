#include "gateway/session/window/window.h"

#include <algorithm>

namespace kvgate::session::window {
namespace {

// A drop leaves room for this many rounds.
constexpr int64_t kHeadroomRounds = 30;
constexpr int64_t kSummaryShare = 8;
constexpr int64_t kSummaryTokensMin = 64;
constexpr int64_t kSummaryTokensMax = 2048;

}  // namespace

Thresholds ThresholdsOf(const Settings& settings, const Measures& measures) {
  Thresholds limits;
  if (measures.context > 0) {
    limits.hard = std::max<int64_t>(1, measures.context - measures.output);
  }
  if (settings.hard > 0 && (limits.hard == 0 || settings.hard < limits.hard)) {
    limits.hard = settings.hard;
  }
  if (limits.hard == 0) return limits;
  limits.high = settings.high > 0 ? settings.high : limits.hard / 5 * 4;
  limits.high = std::clamp<int64_t>(limits.high, 1, limits.hard);
  if (settings.mode == Mode::kSummary) {
    limits.summary =
        settings.summary_tokens_max > 0
            ? settings.summary_tokens_max
            : std::clamp(limits.hard / kSummaryShare, kSummaryTokensMin, kSummaryTokensMax);
  }
  const int64_t least = measures.least + limits.summary;
  const int64_t most = limits.high / 5 * 3;
  limits.low =
      settings.low > 0
          ? settings.low
          : std::min(std::max(limits.high - kHeadroomRounds * measures.growth, least), most);
  limits.low = std::clamp<int64_t>(limits.low, 1, limits.high);
  return limits;
}

Result<Fit> FitRounds(const Thresholds& thresholds, size_t num_rounds_max,
                      const TokensWithout& tokens) {
  Fit fit;
  KVGATE_TRY(fit.before, tokens(0));
  fit.after = fit.before;
  if (thresholds.hard == 0 || fit.before <= thresholds.high || num_rounds_max == 0) return fit;
  // The fewest rounds without which it is low enough; all of them if nothing is.
  size_t few = 1;
  size_t many = num_rounds_max;
  while (few < many) {
    const size_t middle = few + (many - few) / 2;
    KVGATE_TRY(const int64_t left, tokens(middle));
    if (left <= thresholds.low) {
      many = middle;
    } else {
      few = middle + 1;
    }
  }
  fit.num_left_out = few;
  KVGATE_TRY(fit.after, tokens(few));
  return fit;
}

}  // namespace kvgate::session::window
