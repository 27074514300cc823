// HfFolder: a Hugging Face model folder as a ModelFile: config.json and generation_config.json
// become GGUF metadata, the tensors of the safetensors files get their GGUF names.
//
// Matrices stay where they are, in the mappings. What GGUF holds otherwise is said, not rewritten:
// the rows of q and k are not permuted (kRopeHalvesKey). Only vectors (norms, biases) are copied,
// to F32. Tokenizer and chat template are texts here, under keys that engine/tokenizer reads.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "engine/modelfile/hf_config.h"
#include "engine/model/model_file.h"
#include "engine/model/safetensors.h"

namespace kvgate::model {

class HfFolder final : public ModelFile {
 public:
  // kNotFound: a file that must be there (config.json, tokenizer.json, the safetensors: model
  // .safetensors, the shards of model.safetensors.index.json, or the only one there is); kIo,
  // kDataLoss, kUnsupported: what is in one. The detail names the file, and the field or tensor.
  static Result<std::unique_ptr<HfFolder>> Open(const std::filesystem::path& folder);

 private:
  explicit HfFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Result<void> ReadConfig();
  Result<void> ReadTokenizer();
  Result<void> ReadTensors();
  Result<void> AddTensors(const std::filesystem::path& path, const SafetensorsFile& file);
  // A vector of F32 that this object owns, as the data of a tensor.
  std::span<const std::byte> Own(std::vector<float> values);

  std::filesystem::path folder_;
  HfConfig config_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<std::vector<float>> vectors_;
};

// A GGUF file (the first of several), or a Hugging Face folder.
Result<std::unique_ptr<ModelFile>> OpenModelFile(const std::filesystem::path& path);

}  // namespace kvgate::model
