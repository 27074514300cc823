#include "gateway/cli/init/new_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "gateway/cli/agents/draft_file.h"

namespace kvgate::cli::init {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0600;

Error IsThere(const fs::path& path) {
  return MakeError(
      ErrorCode::kInvalidArgument, "cli",
      fmt::format("{} is there already; --force replaces it, --out names another", path.string()));
}

}  // namespace

Result<void> CheckNewFile(const fs::path& path, IfThere if_there) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return {};
  if (if_there == IfThere::kRefuse) return IsThere(path);
  if (S_ISREG(found.st_mode)) return {};
  return MakeError(ErrorCode::kInvalidArgument, "cli",
                   fmt::format("{} is no regular file; it is not replaced", path.string()));
}

Result<void> WriteNewFile(const fs::path& path, std::string_view text, IfThere if_there) {
  KVGATE_TRY_VOID(CheckNewFile(path, if_there));
  KVGATE_TRY(agents::DraftFile draft, agents::DraftFile::Write(path, text, kMode));
  if (if_there == IfThere::kReplace) return draft.Replace();
  KVGATE_TRY(const bool is_new, draft.PublishNew());
  if (!is_new) return IsThere(path);
  return {};
}

}  // namespace kvgate::cli::init
