#include "gateway/bench/bench_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <optional>
#include <system_error>

#include "engine/model/weight_recipe.h"

namespace kvgate::bench {

Result<std::unique_ptr<BenchFile>> BenchFile::Make(const model::MakeModelOptions& shape,
                                                   const std::filesystem::path& cache_directory) {
  std::unique_ptr<BenchFile> file(new BenchFile);
  file->is_kept_ = !cache_directory.empty();
  const std::string name = fmt::format(
      "kvgate-bench-{}-{}x{}-{}-{}-{}-{}-{}-{}{}.gguf", shape.architecture, shape.num_layers,
      shape.hidden_dim, shape.num_heads, shape.num_kv_heads, shape.ffn_dim, shape.vocab_size,
      model::RecipeName({.dtype = shape.dtype, .is_mixed = shape.is_mixed}), shape.seed,
      file->is_kept_ ? std::string() : fmt::format("-{}", getpid()));
  std::error_code ignored;
  if (file->is_kept_) std::filesystem::create_directories(cache_directory, ignored);
  file->path_ = (file->is_kept_ ? cache_directory : std::filesystem::temp_directory_path()) / name;
  if (!std::filesystem::exists(file->path_, ignored)) {
    KVGATE_TRY_VOID(model::MakeModel(shape, file->path_));
  }
  return file;
}

Result<std::unique_ptr<BenchFile>> BenchFile::MakeAs(const std::string& type,
                                                     model::MakeModelOptions shape,
                                                     const std::filesystem::path& cache_directory) {
  const std::optional<model::WeightRecipe> recipe = model::FindRecipe(type);
  if (!recipe) {
    return MakeError(
        ErrorCode::kInvalidArgument, "bench",
        fmt::format("type {} is not one of {}", type, fmt::join(model::RecipeNames(), ", ")),
        "types");
  }
  shape.dtype = recipe->dtype;
  shape.is_mixed = recipe->is_mixed;
  return Make(shape, cache_directory);
}

BenchFile::~BenchFile() {
  std::error_code ignored;
  if (!is_kept_) std::filesystem::remove(path_, ignored);
}

Result<void> ForgetFile(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_done =
      file >= 0 && fdatasync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0;
  if (file >= 0) close(file);
  if (is_done) return {};
  return MakeError(ErrorCode::kIo, "bench",
                   fmt::format("cannot take out of the page cache {}", path.string()));
}

void ForgetFiles(const std::filesystem::path& directory) {
  std::error_code code;
  for (std::filesystem::recursive_directory_iterator entry(directory, code), end; entry != end;
       entry.increment(code)) {
    if (code) return;
    // A file that cannot be dropped is later read from memory. The disk then looks faster than it
    // is, but the figure is still usable.
    if (entry->is_regular_file(code)) (void)ForgetFile(entry->path());
  }
}

}  // namespace kvgate::bench
