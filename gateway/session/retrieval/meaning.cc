#include "gateway/session/retrieval/meaning.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kvgate::session::retrieval {
namespace {

constexpr float kUnits = 127;

// Its sum is at most 128 * 128 * kDimensionsMax, which 32 bits hold.
int32_t Product(std::span<const int8_t> a, std::span<const int8_t> b) {
  int32_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += int32_t{a[i]} * int32_t{b[i]};
  return sum;
}

}  // namespace

Meaning Meaning::Of(std::span<const float> values) {
  Meaning meaning;
  if (values.size() > kDimensionsMax) return meaning;
  float largest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return meaning;
    largest = std::max(largest, std::abs(value));
  }
  if (largest == 0) return meaning;
  meaning.values_.reserve(values.size());
  for (const float value : values) {
    meaning.values_.push_back(static_cast<int8_t>(std::lround(value / largest * kUnits)));
  }
  meaning.SetLength();
  return meaning;
}

Meaning Meaning::FromBytes(std::string_view bytes) {
  Meaning meaning;
  if (bytes.size() > kDimensionsMax) return meaning;
  meaning.values_.assign(bytes.begin(), bytes.end());
  meaning.SetLength();
  if (meaning.length_ == 0) meaning.values_.clear();
  return meaning;
}

void Meaning::SetLength() { length_ = std::sqrt(static_cast<double>(Product(values_, values_))); }

double Meaning::CosineWith(const Meaning& other) const {
  KVGATE_DCHECK(is_known() && dimensions() == other.dimensions(), "vectors of two spaces");
  return static_cast<double>(Product(values_, other.values_)) / (length_ * other.length_);
}

}  // namespace kvgate::session::retrieval
