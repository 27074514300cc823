#include "gateway/ledger/segment/apportion.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace kvgate::ledger::segment {
namespace {

// A weight times a total may exceed 64 bits; 128-bit division takes ten times as long.
using Wide = unsigned __int128;

// Rounds each share down, stores its remainder, and returns how much of the total is left.
template <typename Number>
int64_t ShareWholeParts(std::span<const int64_t> weights, int64_t total, Number sum, bool equal,
                        std::span<int64_t> shares, std::vector<Number>& remainders) {
  int64_t left = total;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Number weight = equal ? Number{1} : static_cast<Number>(weights[i]);
    const Number product = static_cast<Number>(total) * weight;
    shares[i] = static_cast<int64_t>(product / sum);
    remainders[i] = product % sum;
    left -= shares[i];
  }
  return left;
}

template <typename Number>
void Share(std::span<const int64_t> weights, int64_t total, Number sum, bool equal,
           std::span<int64_t> shares) {
  std::vector<Number> remainders(weights.size());
  const int64_t left = ShareWholeParts<Number>(weights, total, sum, equal, shares, remainders);
  if (left == 0) return;
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::nth_element(order.begin(), order.begin() + left, order.end(), [&](size_t a, size_t b) {
    return remainders[a] != remainders[b] ? remainders[a] > remainders[b] : a < b;
  });
  for (int64_t i = 0; i < left; ++i) ++shares[order[static_cast<size_t>(i)]];
}

}  // namespace

void Apportion(std::span<const int64_t> weights, int64_t total, std::span<int64_t> shares) {
  KVGATE_CHECK(weights.size() == shares.size() && total >= 0, "a share for each weight");
  if (weights.empty()) {
    KVGATE_CHECK(total == 0, "nobody to share it");
    return;
  }
  Wide sum = 0;
  for (const int64_t weight : weights) {
    KVGATE_CHECK(weight >= 0, "no weight is negative");
    sum += static_cast<Wide>(weight);
  }
  const bool equal = sum == 0;
  if (equal) sum = weights.size();
  constexpr Wide kNarrow = Wide{1} << 31;
  if (sum < kNarrow && static_cast<Wide>(total) < kNarrow) {
    Share<uint64_t>(weights, total, static_cast<uint64_t>(sum), equal, shares);
  } else {
    Share<Wide>(weights, total, sum, equal, shares);
  }
}

}  // namespace kvgate::ledger::segment
