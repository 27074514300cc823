// NewFile: a file of this user alone (mode 0600) that is there whole or not at all.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace kvgate::cli::init {

enum class IfThere { kRefuse, kReplace };

// Fails with kInvalidArgument if something of that name is there that may not be replaced: anything
// for kRefuse, what is no regular file or a link to elsewhere for kReplace.
Result<void> CheckNewFile(const std::filesystem::path& path, IfThere if_there);
// The same, then writes it in one step; what somebody else has put there meanwhile stays, for
// kRefuse. Also fails with kIo.
Result<void> WriteNewFile(const std::filesystem::path& path, std::string_view text,
                          IfThere if_there);

}  // namespace kvgate::cli::init
