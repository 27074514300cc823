// PlainRope computes the angles of rope in double from the authors' formulas.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "tests/engine/model/plain_shape.h"

namespace kvgate::model {

struct PlainAngles {
  std::vector<double> per_position;
  double magnitude = 1;
};

// Returns the angles of a layer. `local` is true for a layer with a window, which some
// architectures rotate in another way. `factors` are the longrope factors in effect.
inline PlainAngles PlainRope(const PlainShape& shape, bool local,
                             const std::vector<float>& factors) {
  PlainAngles angles;
  const double dim = shape.rotary_dim;
  const bool is_gemma_local = local && shape.is({"gemma3"});
  const double base = is_gemma_local ? 10000 : shape.theta;
  for (int pair = 0; pair < shape.rotary_dim / 2; ++pair) {
    angles.per_position.push_back(1 / std::pow(base, 2 * pair / dim));
  }
  const bool is_local = local && shape.is({"gemma3", "olmo2"});
  const std::string scaling = is_local ? "none" : shape.rope_scaling;
  // Returns the pair that makes `turns` full rotations within the original context.
  const auto pair_of = [&](double turns) {
    const double position_of_one = 2 * std::numbers::pi * turns / shape.original_context;
    return -dim / 2 * std::log(position_of_one) / std::log(base);
  };
  for (size_t pair = 0; pair < angles.per_position.size(); ++pair) {
    double& angle = angles.per_position[pair];
    if (scaling == "linear") angle /= shape.rope_factor;
    if (scaling == "llama3") angle /= PlainLlama3::Divisor(angle);
    if (scaling == "longrope") angle /= factors[pair];
    if (scaling != "yarn") continue;
    // gpt-oss does not round the ends of the ramp; all others do.
    const bool rounds = !shape.is({"gpt-oss"});
    const double low = std::max(rounds ? std::floor(pair_of(32)) : pair_of(32), 0.0);
    const double high = std::min(rounds ? std::ceil(pair_of(1)) : pair_of(1), dim - 1);
    const double ramp = (static_cast<double>(pair) - low) / (high == low ? 0.001 : high - low);
    const double keep = 1 - std::min(std::max(ramp, 0.0), 1.0);
    angle = angle * keep + angle / shape.rope_factor * (1 - keep);
  }
  if (scaling == "yarn") angles.magnitude = 0.1 * std::log(shape.rope_factor) + 1;
  if (scaling == "longrope") {
    const double stretch = static_cast<double>(shape.context) / shape.original_context;
    angles.magnitude = std::sqrt(1 + std::log(stretch) / std::log(shape.original_context));
  }
  return angles;
}

}  // namespace kvgate::model
