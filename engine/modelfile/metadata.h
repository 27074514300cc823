// The metadata of one architecture: keys "ARCHITECTURE.name", with their ranges checked. An error
// names the key: kDataLoss if it is missing or invalid, kUnsupported if it asks for a missing
// feature.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/modelfile/model_file.h"

namespace kvgate::modelfile {

class Metadata {
 public:
  // `file` must outlive this.
  Metadata(const ModelFile& file, std::string_view architecture)
      : file_(file), architecture_(architecture) {}

  const ModelFile& file() const { return file_; }
  std::string Key(std::string_view name) const;
  bool Has(std::string_view name) const { return file_.Find(Key(name)) != nullptr; }

  // Returns the integer in [1, maximum], or `absent` if the key is missing and has a default.
  Result<int> Count(std::string_view name, int maximum, std::optional<int> absent = {}) const;
  // Returns the positive finite number, or `absent` likewise.
  Result<float> Positive(std::string_view name, std::optional<float> absent = {}) const;
  // Same as Positive, but a missing key or 0 gives `absent`, because files switch off a factor by
  // 0.
  Result<float> PositiveOr(std::string_view name, float absent) const;
  // Same as Count, but 0 is allowed, and a missing key gives 0.
  Result<int> CountOrZero(std::string_view name, int maximum) const;
  Result<bool> Bool(std::string_view name, bool absent) const;
  // Fails with kUnsupported if the key has another value than the one that has no effect.
  Result<void> OnlyNeutral(std::string_view name, double neutral) const;

 private:
  const ModelFile& file_;
  std::string architecture_;
};

}  // namespace kvgate::modelfile
