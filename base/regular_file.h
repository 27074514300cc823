// RegularFile: reads small files whose place others may have filled with something else. Neither a
// pipe without a writer nor an endless device can hold up whoever reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <kvgate/result.h>

namespace kvgate {

struct RegularFileOptions {
  uint64_t bytes_max = uint64_t{1} << 20;
  bool follows_link = true;  // false: a symbolic link in the last place is no regular file
};

// The whole file. kNotFound; kPermissionDenied; kInvalidArgument: a directory, pipe, device or
// link; kTooLarge; kIo. The detail names the path.
Result<std::string> ReadRegularFile(const std::filesystem::path& path,
                                    const RegularFileOptions& options = {});
// Whether it could be read so, without reading it; errors as above.
Result<void> CheckRegularFile(const std::filesystem::path& path,
                              const RegularFileOptions& options = {});

}  // namespace kvgate
