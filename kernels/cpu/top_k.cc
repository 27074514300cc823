#include "kernels/cpu/top_k.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace kvgate::kernels::cpu {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

struct Entry {
  TokenId id = -1;
  float value = kLowest;
};

bool IsBefore(const Entry& a, const Entry& b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

float Clean(float x) {
  return x > kLowest ? std::min(x, std::numeric_limits<float>::max()) + 0.0f : kLowest;
}

// Entries are collected in a buffer of twice `count`. When it is full, the lower half is dropped,
// and from then on only values above the least of the upper half are added.
std::vector<Entry> SelectTop(const float* x, int64_t columns, size_t count) {
  const size_t room = 2 * count;
  std::vector<Entry> top;
  top.reserve(room);
  bool is_barred = false;
  float bar = kLowest;
  for (int64_t i = 0; i < columns; ++i) {
    const float value = Clean(x[i]);
    // Ids ascend, so an equal value ranks after those already held.
    if (is_barred && !(value > bar)) continue;
    top.push_back({.id = static_cast<TokenId>(i), .value = value});
    if (top.size() < room) continue;
    const auto nth = top.begin() + static_cast<ptrdiff_t>(count - 1);
    std::nth_element(top.begin(), nth, top.end(), IsBefore);
    bar = nth->value;
    is_barred = true;
    top.resize(count);
  }
  std::sort(top.begin(), top.end(), IsBefore);
  top.resize(count);  // missing entries get the default id -1
  return top;
}

}  // namespace

void TopOfRow(const TopKTask& task, int64_t row, const TopKResult& to) {
  const float* x = task.x + row * task.columns;
  const auto count = static_cast<size_t>(task.count);
  const std::vector<Entry> top = SelectTop(x, task.columns, count);
  for (size_t i = 0; i < count; ++i) {
    to.ids[static_cast<size_t>(row) * count + i] = top[i].id;
    to.values[static_cast<size_t>(row) * count + i] = top[i].value;
  }
  const double greatest = top[0].value;
  const double scale = task.scales[static_cast<size_t>(row)];
  double sum = 0;
  double scaled_sum = 0;
  for (int64_t i = 0; i < task.columns; ++i) {
    const float value = Clean(x[i]);
    if (value == kLowest) continue;
    sum += std::exp(value - greatest);
    scaled_sum += std::exp((value - greatest) * scale);
  }
  to.exp_sums[row] = static_cast<float>(sum);
  to.scaled_exp_sums[row] = static_cast<float>(scaled_sum);
}

}  // namespace kvgate::kernels::cpu
