// HfConfig: a Hugging Face config.json translated to GGUF metadata. It knows texts, not files or
// tensor data. A feature that cannot be computed exactly is refused by the name of its field.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/modelfile/model_file.h"

namespace kvgate::modelfile {

struct HfConfig {
  std::vector<std::pair<std::string, GgufValue>> metadata;
  bool tied_embeddings = false;
  // The divisor of each frequency for rope_scaling of type llama3, [head_dim / 2]; else empty.
  std::vector<float> rope_divisors;
};

// `generation` is the text of generation_config.json, or empty. Fails with kDataLoss if a field is
// missing or invalid, and with kUnsupported if it asks for a missing feature. The detail names the
// file and the field.
Result<HfConfig> ReadHfConfig(std::string_view config, std::string_view generation);

// Returns a tensor's name in GGUF files: "model.layers.3.mlp.up_proj.weight" gives
// "blk.3.ffn_up.weight". Returns nullopt for a name that no supported model has.
std::optional<std::string> GgufTensorName(std::string_view name);

}  // namespace kvgate::modelfile
