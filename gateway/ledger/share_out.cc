#include "gateway/ledger/share_out.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <kvgate/check.h>

namespace kvgate::ledger {
namespace {

// A weight times a total is wider than 64 bits.
using Wide = unsigned __int128;

}  // namespace

void ShareOut(std::span<const int64_t> weights, int64_t total, std::span<int64_t> shares) {
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
  std::vector<Wide> remainders(weights.size());
  int64_t left = total;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Wide product = static_cast<Wide>(total) * static_cast<Wide>(equal ? 1 : weights[i]);
    shares[i] = static_cast<int64_t>(product / sum);
    remainders[i] = product % sum;
    left -= shares[i];
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  for (int64_t i = 0; i < left; ++i) ++shares[order[static_cast<size_t>(i)]];
}

}  // namespace kvgate::ledger
