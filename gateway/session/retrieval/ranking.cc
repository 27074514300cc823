#include "gateway/session/retrieval/ranking.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kvgate::session::retrieval {
namespace {

// Less like than this is nothing, whatever the others are.
constexpr double kCosineMin = 0.2;
// By how many spreads one has to be above the median; the likest of many is farther above it by
// chance alone: about sqrt(2 ln n) of them.
constexpr double kSpreadsMin = 3.5;
// Of cosines that are all about the same, which would make any difference look large.
constexpr double kSpreadMin = 0.03;
// The median distance of a normal distribution as its standard deviation.
constexpr double kSpreadOfMedian = 1.4826;
constexpr double kRankOffset = 60;

// REQUIRES: there are some.
double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<uint32_t> StandingOut(std::span<const Likeness> all) {
  if (all.empty()) return {};
  std::vector<double> values;
  values.reserve(all.size());
  for (const Likeness& one : all) values.push_back(one.cosine);
  const double median = MedianOf(values);
  for (double& value : values) value = std::abs(value - median);
  const double spread = std::max(kSpreadMin, kSpreadOfMedian * MedianOf(std::move(values)));
  const double by_chance = std::sqrt(2 * std::log(static_cast<double>(all.size())));
  const double least = std::max(kCosineMin, median + spread * std::max(kSpreadsMin, by_chance));
  std::vector<Likeness> found;
  for (const Likeness& one : all) {
    if (one.cosine >= least) found.push_back(one);
  }
  std::sort(found.begin(), found.end(), [](const Likeness& a, const Likeness& b) {
    return a.cosine != b.cosine ? a.cosine > b.cosine : a.entry > b.entry;
  });
  std::vector<uint32_t> entries;
  for (const Likeness& one : found) entries.push_back(one.entry);
  return entries;
}

std::vector<uint32_t> Fused(std::span<const uint32_t> first, std::span<const uint32_t> second) {
  std::vector<uint32_t> all(first.begin(), first.end());
  std::map<uint32_t, double> scores;
  const auto add = [&](std::span<const uint32_t> ranking) {
    for (size_t i = 0; i < ranking.size(); ++i) {
      scores[ranking[i]] += 1 / (kRankOffset + static_cast<double>(i));
    }
  };
  add(first);
  for (const uint32_t entry : second) {
    if (!scores.contains(entry)) all.push_back(entry);
  }
  add(second);
  std::stable_sort(all.begin(), all.end(),
                   [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  return all;
}

}  // namespace kvgate::session::retrieval
