// Overlay: a folder of generated files for one run of an agent, which only this user may enter. The
// destructor removes it with everything in it. Not thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvgate::cli::agents {

class Overlay {
 public:
  // Makes the folder in $TMPDIR, else in /tmp. Fails with kIo.
  static Result<Overlay> Open();
  ~Overlay();
  Overlay(Overlay&& other) noexcept;
  Overlay& operator=(Overlay&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Writes a file of mode 0600. `name` is one part of a path. Fails with kIo.
  Result<void> Write(std::string_view name, std::string_view content);

 private:
  explicit Overlay(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;  // empty: moved away
};

}  // namespace kvgate::cli::agents
