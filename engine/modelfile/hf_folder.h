// HfFolder: a Hugging Face model folder as a ModelFile: config.json and generation_config.json
// become GGUF metadata, the tensors of the safetensors files get their GGUF names.
//
// Matrices stay in the file mappings. Differences from GGUF are declared, not rewritten: the rows
// of q and k are not permuted (kRopeHalvesKey). Only vectors (norms, biases) are copied, to F32.
// The tokenizer and chat template are kept as texts, under keys that engine/text/tokenizer reads.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/modelfile/hf_config.h"
#include "engine/modelfile/model_file.h"
#include "engine/modelfile/safetensors.h"

namespace kvgate::modelfile {

class HfFolder final : public ModelFile {
 public:
  // Fails with kNotFound if a required file is missing: config.json, tokenizer.json, or the
  // safetensors (model.safetensors, else the shards of model.safetensors.index.json, else the only
  // such file). Fails with kIo, kDataLoss or kUnsupported for the content of one. The detail names
  // the file, and the field or tensor.
  static Result<std::unique_ptr<HfFolder>> Open(const std::filesystem::path& folder);

 private:
  explicit HfFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Result<void> ReadConfig();
  Result<void> ReadTokenizer();
  Result<void> ReadTensors();
  Result<void> AddTensors(const std::filesystem::path& path, const SafetensorsFile& file);
  // Stores the values in this object and returns their bytes as the data of a tensor.
  std::span<const std::byte> Own(std::vector<float> values);

  std::filesystem::path folder_;
  HfConfig config_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<std::vector<float>> vectors_;
};

// Opens a GGUF file (the first one if there are several parts) or a Hugging Face folder.
Result<std::unique_ptr<ModelFile>> OpenModelFile(const std::filesystem::path& path);

}  // namespace kvgate::modelfile
