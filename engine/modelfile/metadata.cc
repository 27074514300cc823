#include "engine/modelfile/metadata.h"

#include <fmt/format.h>

#include <cmath>

namespace kvgate::modelfile {

std::string Metadata::Key(std::string_view name) const {
  return fmt::format("{}.{}", architecture_, name);
}

Result<int> Metadata::Count(std::string_view name, int maximum, std::optional<int> absent) const {
  const std::string key = Key(name);
  Result<int64_t> value = file_.GetInteger(key);
  if (!value) {
    if (value.error().code != ErrorCode::kNotFound) return std::move(value).error();
    if (absent) return *absent;
    return ModelDataLoss(fmt::format("metadata '{}' is missing", key));
  }
  if (*value < 1 || *value > maximum) {
    return ModelDataLoss(fmt::format("metadata '{}' is {}, not in 1 to {}", key, *value, maximum));
  }
  return static_cast<int>(*value);
}

Result<float> Metadata::Positive(std::string_view name, std::optional<float> absent) const {
  const std::string key = Key(name);
  Result<double> value = file_.GetNumber(key);
  if (!value) {
    if (value.error().code != ErrorCode::kNotFound) return std::move(value).error();
    if (absent) return *absent;
    return ModelDataLoss(fmt::format("metadata '{}' is missing", key));
  }
  const float number = static_cast<float>(*value);
  if (!std::isfinite(number) || number <= 0) {
    return ModelDataLoss(fmt::format("metadata '{}' is {}, not a positive number", key, *value));
  }
  return number;
}

Result<float> Metadata::PositiveOr(std::string_view name, float absent) const {
  if (!Has(name)) return absent;
  KVGATE_TRY(const double value, file_.GetNumber(Key(name)));
  if (value == 0) return absent;
  return Positive(name);
}

Result<int> Metadata::CountOrZero(std::string_view name, int maximum) const {
  if (!Has(name)) return 0;
  KVGATE_TRY(const int64_t value, file_.GetInteger(Key(name)));
  if (value == 0) return 0;
  return Count(name, maximum);
}

Result<bool> Metadata::Bool(std::string_view name, bool absent) const {
  if (!Has(name)) return absent;
  return file_.GetBool(Key(name));
}

Result<void> Metadata::OnlyNeutral(std::string_view name, double neutral) const {
  if (!Has(name)) return {};
  KVGATE_TRY(const double value, file_.GetNumber(Key(name)));
  if (value == neutral) return {};
  return ModelUnsupported(
      fmt::format("metadata '{}' is {}; only {} is supported", Key(name), value, neutral));
}

}  // namespace kvgate::modelfile
