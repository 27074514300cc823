// ModelSource: the model file that a configuration asks for: the one that it names, or the one that
// kvgate brings along.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/modelfile/memory_file.h"
#include "gateway/config/config.h"

namespace kvgate::runtime {

class ModelSource {
 public:
  // Does not open a named file. Fails with kIo or kOverloaded if the default model cannot be had.
  static Result<ModelSource> Of(const config::Config& config);

  bool is_default() const { return memory_.has_value(); }
  // A file or a folder; a default model's lives as long as this object.
  const std::filesystem::path& path() const { return path_; }
  // For people: the path, or what the default model is called.
  std::string label() const;

 private:
  ModelSource() = default;

  std::optional<modelfile::MemoryFile> memory_;
  std::filesystem::path path_;
};

}  // namespace kvgate::runtime
