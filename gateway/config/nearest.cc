#include "gateway/config/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace kvgate::config {
namespace {

// A word longer than any key is no misspelling, and comparing it takes quadratic time.
constexpr size_t kWordBytesMax = 64;

std::string Plain(std::string_view word) {
  std::string plain;
  for (const char c : word) {
    if (c != '-' && c != '_')
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

// The edit distance: letters inserted, deleted, replaced or swapped with a neighbour.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above = row;
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool is_same = a[i - 1] == b[j - 1];
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (is_same ? 0 : 1)});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view Nearest(std::string_view word, std::span<const std::string_view> known) {
  const std::string plain = Plain(word);
  if (plain.empty() || word.size() > kWordBytesMax) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, plain.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const std::string other = Plain(candidate);
    size_t distance = Distance(plain, other);
    if (plain.size() >= 3 && other.starts_with(plain)) distance = std::min<size_t>(distance, 1);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string DidYouMean(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view nearest = Nearest(word, known);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace kvgate::config
