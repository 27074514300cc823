// BenchFile: a random-weight model file for a measurement.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/model/make_model.h"

namespace kvgate::bench {

// A model file of a given shape: one kept from an earlier run, or a new one that the destructor
// removes unless it is to be kept.
class BenchFile {
 public:
  // With an empty cache_directory the file is made in the temporary directory and not kept.
  static Result<std::unique_ptr<BenchFile>> Make(const model::MakeModelOptions& shape,
                                                 const std::filesystem::path& cache_directory);
  // Makes the file in the format or recipe of this name. Fails with kInvalidArgument (field:
  // "types") if there is none.
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

// Drops the file from the page cache, after writing its dirty pages, as only clean ones can be
// dropped. Fails with kIo.
Result<void> ForgetFile(const std::filesystem::path& path);
// Drops all files below the directory, as far as possible.
void ForgetFiles(const std::filesystem::path& directory);

}  // namespace kvgate::bench
