// The metadata of one architecture: keys "ARCHITECTURE.name", with their ranges checked. An error
// names the key: kDataLoss where it is missing or senseless, kUnsupported where we lack what it
// asks for.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "engine/model/gguf.h"

namespace kvgate::model {

Error ModelDataLoss(std::string detail);
Error ModelUnsupported(std::string detail);

class Metadata {
 public:
  // `file` must outlive this.
  Metadata(const GgufFile& file, std::string_view architecture)
      : file_(file), architecture_(architecture) {}

  const GgufFile& file() const { return file_; }
  std::string Key(std::string_view name) const;
  bool Has(std::string_view name) const { return file_.Find(Key(name)) != nullptr; }

  // The integer in [1, maximum], or `absent` where the key is not there and has a default.
  Result<int> Count(std::string_view name, int maximum, std::optional<int> absent = {}) const;
  // The finite number above 0, likewise.
  Result<float> Positive(std::string_view name, std::optional<float> absent = {}) const;
  // As Positive, but what is absent or 0 means `absent`: how files switch off a factor.
  Result<float> PositiveOr(std::string_view name, float absent) const;
  // As Count, from 0 on, which is also what an absent key means.
  Result<int> CountOrZero(std::string_view name, int maximum) const;
  Result<bool> Bool(std::string_view name, bool absent) const;
  // kUnsupported when the key is there with another value than the one that changes nothing.
  Result<void> OnlyNeutral(std::string_view name, double neutral) const;

 private:
  const GgufFile& file_;
  std::string architecture_;
};

}  // namespace kvgate::model
