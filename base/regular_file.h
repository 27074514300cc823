// RegularFile: reads small files at paths where others may have placed something else. A pipe
// without a writer or an endless device cannot block the reader.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace kvgate {

struct RegularFileOptions {
  uint64_t bytes_max = uint64_t{1} << 20;
  bool follows_link = true;  // false: a path that is a symbolic link is refused
};

// Reads the whole file. Fails with kNotFound, kPermissionDenied, kInvalidArgument (a directory,
// pipe, device or refused link), kTooLarge or kIo. The detail names the path.
Result<std::string> ReadRegularFile(const std::filesystem::path& path,
                                    const RegularFileOptions& options = {});
// Checks that the file could be read like this, without reading it. Fails as ReadRegularFile does.
Result<void> CheckRegularFile(const std::filesystem::path& path,
                              const RegularFileOptions& options = {});

}  // namespace kvgate
