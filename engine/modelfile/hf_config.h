// HfConfig: what a Hugging Face config.json says of a model, in the terms of GGUF metadata. It
// knows texts, not files or tensors' data. What we could not compute exactly is refused by its
// field.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kvgate/result.h>

#include "engine/model/model_file.h"

namespace kvgate::model {

struct HfConfig {
  std::vector<std::pair<std::string, GgufValue>> metadata;
  bool tied_embeddings = false;
  // rope_scaling of type llama3: what each frequency is divided by, [head_dim / 2]; else empty.
  std::vector<float> rope_divisors;
};

// `generation`: the text of generation_config.json, or empty. kDataLoss: a field is missing or
// senseless; kUnsupported: what it asks for. The detail names the file and the field.
Result<HfConfig> ReadHfConfig(std::string_view config, std::string_view generation);

// A tensor's name in GGUF files: "model.layers.3.mlp.up_proj.weight" is "blk.3.ffn_up.weight".
// nullopt: a name that no model of ours has.
std::optional<std::string> GgufTensorName(std::string_view name);

}  // namespace kvgate::model
