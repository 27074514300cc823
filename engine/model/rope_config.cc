// Position encoding: the frequencies of rope, and the ways in which models stretch them to contexts
// longer than those of their first training.
//   linear    all frequencies times 1 / factor (Chen et al. 2023)
//   yarn      low frequencies times 1 / factor, high ones unchanged, with a ramp in between; scores
//             grow with the logarithm of the factor (Peng et al. 2023)
//   longrope  each frequency has its own factor from one of two sets, one of them for contexts
//   beyond
//             the original one (Ding et al. 2024)
//   rope_freqs.weight: each frequency has its own factor; files store llama3's scaling in this form
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>

#include "engine/model/architecture.h"

namespace kvgate::model {

using modelfile::Metadata;

namespace {

constexpr std::string_view kFreqsTensor = "rope_freqs.weight";
constexpr std::string_view kLongTensor = "rope_factors_long.weight";
constexpr std::string_view kShortTensor = "rope_factors_short.weight";
constexpr int kContextMax = 1 << 28;

// Returns the divisor of each frequency, from a F32 vector of [rotary_dim / 2].
Result<std::vector<double>> ReadDivisors(const modelfile::ModelFile& file, std::string_view name,
                                         int rotary_dim) {
  const modelfile::GgufTensor* tensor = file.FindTensor(name);
  if (tensor == nullptr)
    return modelfile::ModelDataLoss(fmt::format("tensor '{}' is missing", name));
  const std::vector<int64_t> expected = {rotary_dim / 2};
  if (tensor->dimensions != expected ||
      tensor->type != static_cast<uint32_t>(modelfile::GgufType::kF32)) {
    return modelfile::ModelDataLoss(
        fmt::format("tensor '{}' is no vector of {} values of F32", name, rotary_dim / 2));
  }
  std::vector<float> values(static_cast<size_t>(rotary_dim / 2));
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  for (const float value : values) {
    if (!std::isfinite(value) || value <= 0) {
      return modelfile::ModelDataLoss(
          fmt::format("tensor '{}' holds {}, not a positive number", name, value));
    }
  }
  return std::vector<double>(values.begin(), values.end());
}

enum class Scaling : uint8_t { kNone, kLinear, kYarn, kLongRope };

Result<Scaling> ReadScaling(const Metadata& metadata) {
  const std::string key = metadata.Key("rope.scaling.type");
  const modelfile::ModelFile& file = metadata.file();
  const bool has_factors = file.FindTensor(kLongTensor) != nullptr;
  if (file.Find(key) == nullptr) {
    // Files of phi3 have the factors and no type. Without a type, a factor means linear scaling.
    return has_factors ? Scaling::kLongRope : Scaling::kLinear;
  }
  KVGATE_TRY(const std::string type, file.GetString(key));
  if (type == "longrope" || (type == "none" && has_factors)) return Scaling::kLongRope;
  if (has_factors) {
    return modelfile::ModelUnsupported(
        fmt::format("metadata '{}' is \"{}\", but tensor '{}' is there, which longrope reads", key,
                    type, kLongTensor));
  }
  if (type == "none") return Scaling::kNone;
  if (type == "linear") return Scaling::kLinear;
  if (type == "yarn") return Scaling::kYarn;
  return modelfile::ModelUnsupported(fmt::format(
      "metadata '{}' is \"{}\"; supported are none, linear, yarn and longrope", key, type));
}

class RopeReader {
 public:
  RopeReader(const Metadata& metadata, const Architecture& architecture, int context_tokens,
             const ModelConfig& config)
      : metadata_(metadata),
        architecture_(architecture),
        config_(config),
        context_tokens_(context_tokens > 0 ? std::min(context_tokens, config.context_length)
                                           : config.context_length) {}

  // Returns the unscaled frequencies, base^(-2i / rotary_dim). They are computed in double, because
  // the error of pow in f32 with a large base is visible at position 10^5.
  std::vector<double> Frequencies(double theta) const {
    std::vector<double> frequencies;
    for (int i = 0; i < config_.rotary_dim / 2; ++i) {
      frequencies.push_back(std::pow(theta, -2.0 * i / config_.rotary_dim));
    }
    return frequencies;
  }

  Result<RopeConfig> Scaled(float theta) const {
    KVGATE_TRY(const Scaling scaling, ReadScaling(metadata_));
    std::vector<double> frequencies = Frequencies(theta);
    if (metadata_.file().FindTensor(kFreqsTensor) != nullptr) {
      KVGATE_TRY_VOID(Divide(kFreqsTensor, frequencies));
    }
    double magnitude = 1;
    if (scaling == Scaling::kLongRope) {
      KVGATE_TRY(magnitude, LongRope(frequencies));
    } else if (scaling != Scaling::kNone) {
      KVGATE_TRY(const float old_factor, metadata_.PositiveOr("rope.scale_linear", 1));
      KVGATE_TRY(const float factor, metadata_.PositiveOr("rope.scaling.factor", old_factor));
      if (scaling == Scaling::kLinear) {
        for (double& frequency : frequencies) frequency /= factor;
      } else {
        KVGATE_TRY_VOID(Yarn(theta, factor, frequencies));
        if (factor > 1) magnitude = 1 + 0.1 * std::log(static_cast<double>(factor));
      }
    }
    // The file's value replaces the computed one, as the authors' attention_factor does.
    KVGATE_TRY(const float attention_factor,
               metadata_.PositiveOr("rope.scaling.attn_factor", static_cast<float>(magnitude)));
    return Rounded(frequencies, attention_factor);
  }

  static RopeConfig Rounded(const std::vector<double>& frequencies, double magnitude) {
    return {.inv_freq = std::vector<float>(frequencies.begin(), frequencies.end()),
            .magnitude = static_cast<float>(magnitude)};
  }

 private:
  Result<void> Divide(std::string_view tensor, std::vector<double>& frequencies) const {
    KVGATE_TRY(const std::vector<double> divisors,
               ReadDivisors(metadata_.file(), tensor, config_.rotary_dim));
    for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= divisors[i];
    return {};
  }

  Result<int> OriginalContext(std::optional<int> absent) const {
    return metadata_.Count("rope.scaling.original_context_length", kContextMax, absent);
  }

  // Scales the frequencies and returns the magnitude to use if the file has none. The set of
  // factors depends on the longest context, not on the sequence, because KV that was written with
  // one set cannot be read with the other.
  Result<double> LongRope(std::vector<double>& frequencies) const {
    KVGATE_TRY(const int original, OriginalContext({}));
    // Both tensors must be valid, whichever is used.
    for (const std::string_view tensor : {kLongTensor, kShortTensor}) {
      KVGATE_TRY([[maybe_unused]] const auto divisors,
                 ReadDivisors(metadata_.file(), tensor, config_.rotary_dim));
    }
    KVGATE_TRY_VOID(Divide(context_tokens_ > original ? kLongTensor : kShortTensor, frequencies));
    const double stretch = static_cast<double>(config_.context_length) / original;
    return stretch > 1 ? std::sqrt(1 + std::log(stretch) / std::log(static_cast<double>(original)))
                       : 1.0;
  }

  // A pair with more than `fast` turns in the original context keeps its frequency; one with fewer
  // than `slow` turns is stretched by the whole factor.
  Result<void> Yarn(double theta, double factor, std::vector<double>& frequencies) const {
    KVGATE_TRY(const int original, OriginalContext(config_.context_length));
    KVGATE_TRY(const float fast, metadata_.PositiveOr("rope.scaling.yarn_beta_fast", 32));
    KVGATE_TRY(const float slow, metadata_.PositiveOr("rope.scaling.yarn_beta_slow", 1));
    const auto pair_of = [&](double turns) {
      return config_.rotary_dim * std::log(original / (turns * 2 * std::numbers::pi)) /
             (2 * std::log(theta));
    };
    double low = pair_of(fast);
    double high = pair_of(slow);
    if (architecture_.yarn_rounds) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, config_.rotary_dim - 1.0);
    if (low == high) high += 0.001;  // a step instead of a division by zero
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
      frequencies[i] *= 1 - stretched + stretched / factor;
    }
    return {};
  }

  const Metadata& metadata_;
  const Architecture& architecture_;
  const ModelConfig& config_;
  int context_tokens_;
};

Result<void> CheckOtherKeys(const Metadata& metadata) {
  KVGATE_TRY_VOID(metadata.OnlyNeutral("rope.scaling.yarn_ext_factor", 1));
  KVGATE_TRY_VOID(metadata.OnlyNeutral("rope.scaling.yarn_attn_factor", 1));
  return metadata.OnlyNeutral("rope.scaling.yarn_log_multiplier", 0);
}

}  // namespace

Result<void> ReadRopes(const Metadata& metadata, const Architecture& architecture,
                       int context_tokens, ModelConfig& config) {
  KVGATE_TRY_VOID(CheckOtherKeys(metadata));
  KVGATE_TRY(const float theta, metadata.Positive("rope.freq_base", architecture.rope_theta));
  const RopeReader reader(metadata, architecture, context_tokens, config);
  KVGATE_TRY(RopeConfig rope, reader.Scaled(theta));
  config.ropes = {std::move(rope)};
  const float own_theta =
      architecture.window_rope_theta > 0 ? architecture.window_rope_theta : theta;
  if (architecture.window_rope_theta != 0) {
    KVGATE_TRY(const float window_theta, metadata.Positive("rope.freq_base_swa", own_theta));
    config.ropes.push_back(RopeReader::Rounded(reader.Frequencies(window_theta), 1));
  } else {
    KVGATE_TRY_VOID(metadata.OnlyNeutral("rope.freq_base_swa", theta));
  }
  for (size_t i = 0; i < config.layers.size(); ++i) {
    LayerConfig& layer = config.layers[i];
    const bool skips = architecture.rope_skip_period > 0 &&
                       (i + 1) % static_cast<size_t>(architecture.rope_skip_period) == 0;
    const bool is_own = layer.window > 0 && config.ropes.size() > 1;
    layer.rope = skips ? -1 : int{is_own};
  }
  return {};
}

}  // namespace kvgate::model
