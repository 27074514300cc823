// Meaning: the vector that a model for embeddings makes of a text, in small numbers, and how alike
// two of them are. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::session::retrieval {

class Meaning {
 public:
  static constexpr size_t kDimensionsMax = 8192;

  // Of a text that has none: no model was asked, or it refuses the text.
  Meaning() = default;
  // Of a model's vector, whatever its length. One of zeros, of more than kDimensionsMax dimensions
  // or with values that are no numbers gives none.
  static Meaning Of(std::span<const float> values);
  // What `bytes` gave.
  static Meaning FromBytes(std::string_view bytes);
  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(values_.data()), values_.size()};
  }

  bool is_known() const { return !values_.empty(); }
  size_t dimensions() const { return values_.size(); }
  // From -1 to 1, to about two digits. REQUIRES: both are known and have the same dimensions.
  double CosineWith(const Meaning& other) const;

 private:
  void SetLength();

  std::vector<int8_t> values_;  // in units of a 127th of the largest one
  double length_ = 0;
};

}  // namespace kvgate::session::retrieval
