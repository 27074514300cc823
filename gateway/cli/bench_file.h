// BenchFile: a random-weight model file for a measurement.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <kvgate/result.h>

#include "engine/model/make_model.h"

namespace kvgate::cli {

// A file of the wanted shape: the kept one, or a new one, removed at the end unless it is kept.
class BenchFile {
 public:
  // An empty cache_directory: made in the temporary directory, and not kept.
  static Result<std::unique_ptr<BenchFile>> Make(const model::MakeModelOptions& shape,
                                                 const std::filesystem::path& cache_directory);
  // In the format or recipe of this name; kInvalidArgument (field: "types"): there is none.
  static Result<std::unique_ptr<BenchFile>> MakeAs(const std::string& type,
                                                   model::MakeModelOptions shape,
                                                   const std::filesystem::path& cache_directory);
  ~BenchFile();
  BenchFile(const BenchFile&) = delete;
  BenchFile& operator=(const BenchFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  BenchFile() = default;
  std::filesystem::path path_;
  bool is_kept_ = false;
};

// Takes the file out of the page cache: written pages first, as only clean ones go. kIo.
Result<void> ForgetFile(const std::filesystem::path& path);
// All files below the directory, as far as they can be.
void ForgetFiles(const std::filesystem::path& directory);

}  // namespace kvgate::cli
