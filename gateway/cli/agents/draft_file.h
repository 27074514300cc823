// DraftFile: a file that is written beside the place that it is for and then takes it in one step,
// so that what stands there is the old one or the whole new one, whatever is killed.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace kvgate::cli::agents {

class DraftFile {
 public:
  // Writes and syncs the text, in a file of this mode beside `path`. Fails with kIo.
  static Result<DraftFile> Write(const std::filesystem::path& path, std::string_view text,
                                 mode_t mode);
  // Removes what has not taken its place.
  ~DraftFile();
  DraftFile(DraftFile&& other) noexcept;
  DraftFile& operator=(DraftFile&&) = delete;

  // Takes the place of whatever file is there. Fails with kIo.
  Result<void> Replace();
  // Takes the place if it is free; returns false if it is not. Fails with kIo.
  Result<bool> PublishNew();

 private:
  DraftFile(std::filesystem::path path, std::string draft)
      : path_(std::move(path)), draft_(std::move(draft)) {}

  std::filesystem::path path_;
  std::string draft_;  // empty: it has taken its place, or was moved away
};

}  // namespace kvgate::cli::agents
