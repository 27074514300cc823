#include "gateway/cli/agents/setup.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/digest.h"
#include "gateway/cli/agents/config_edit.h"
#include "gateway/cli/agents/draft_file.h"
#include "gateway/cli/agents/launch.h"

namespace kvgate::cli::agents {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr mode_t kNewFileMode = 0600;
constexpr mode_t kNewDirectoryMode = 0700;

Error Failed(const fs::path& path) {
  return MakeError(ErrorCode::kIo, "cli",
                   fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno)));
}

std::string Environment(const std::string& name) {
  const char* const value = name.empty() ? nullptr : std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

fs::path DirectoryOf(const SetupFile& setup) {
  if (const std::string named = Environment(setup.directory_env); !named.empty()) return named;
  const std::string config_home = Environment("XDG_CONFIG_HOME");
  return InHome(
      Filled(setup.directory, {{"config_home", config_home.empty() ? "~/.config" : config_home}}));
}

Result<void> MakeDirectories(const fs::path& directory) {
  std::error_code code;
  if (directory.empty() || fs::exists(directory, code)) return {};
  KVGATE_TRY_VOID(MakeDirectories(directory.parent_path()));
  if (mkdir(directory.c_str(), kNewDirectoryMode) == 0 || errno == EEXIST) return {};
  return Failed(directory);
}

Result<void> Replace(const fs::path& path, std::string_view text, mode_t mode) {
  KVGATE_TRY_VOID(MakeDirectories(path.parent_path()));
  KVGATE_TRY(DraftFile draft, DraftFile::Write(path, text, mode));
  return draft.Replace();
}

std::string DigestOf(const std::string& text) {
  return ToHex(Sha256().Update(text).Finish().bytes);
}

}  // namespace

Result<AgentSetup> AgentSetup::Open(const Agent& agent) {
  if (!agent.setup) {
    return MakeError(ErrorCode::kUnsupported, "cli",
                     fmt::format("{} takes no base URL from a file of its own that could be "
                                 "written; use `kvgate run -- {}`",
                                 agent.title, agent.name));
  }
  std::error_code code;
  const fs::path named = DirectoryOf(*agent.setup) / agent.setup->file;
  const fs::path file = fs::weakly_canonical(named, code);
  struct stat found {};
  const bool is_there = !code && lstat(file.c_str(), &found) == 0;
  if (code || (is_there && (!S_ISREG(found.st_mode) || found.st_uid != geteuid()))) {
    return MakeError(
        ErrorCode::kPermissionDenied, "cli",
        fmt::format("{} is no regular file of this user's; it is not written", named.string()));
  }
  return AgentSetup(agent, file);
}

fs::path AgentSetup::backup() const { return file_.string() + ".kvgate-backup"; }
fs::path AgentSetup::note() const { return file_.string() + ".kvgate-setup"; }

std::string AgentSetup::written_origin() const {
  const Result<std::string> text = ReadIfThere(note());
  const Json json = Json::parse(text.value_or(""), nullptr, false);
  return json.is_object() && json.contains("origin") ? TextOf(json["origin"]) : "";
}

Result<AgentSetup::Change> AgentSetup::Plan(const std::string& origin) const {
  Change change;
  KVGATE_TRY(change.before, ReadIfThere(file_));
  std::vector<ConfigEdit> edits = agent_->setup->edits;
  for (ConfigEdit& edit : edits) edit.to = FilledJson(edit.to, PlacesOf(origin));
  Result<std::string> edited = ApplyEdits(change.before, agent_->setup->format, edits);
  if (!edited) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("{}: {}", file_.string(), edited.error().detail));
  }
  change.after = std::move(*edited);
  return change;
}

Result<void> AgentSetup::Write(const std::string& origin, const Change& change) const {
  if (const std::string written = written_origin(); !written.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("{} is set up for {}; `kvgate setup {} --undo` takes that back",
                                 agent_->title, written, agent_->name));
  }
  KVGATE_TRY(const std::string now, ReadIfThere(file_));
  if (now != change.before) {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("{} has changed meanwhile; try again", file_.string()));
  }
  struct stat found {};
  const bool was_there = stat(file_.c_str(), &found) == 0;
  const mode_t mode = was_there ? found.st_mode & 07777 : kNewFileMode;
  if (was_there) {
    KVGATE_TRY_VOID(Replace(backup(), change.before, mode));
  }
  const Json note_text = {
      {"origin", origin}, {"sha256", DigestOf(change.after)}, {"was_there", was_there}};
  KVGATE_TRY_VOID(Replace(note(), note_text.dump(2) + "\n", kNewFileMode));
  return Replace(file_, change.after, mode);
}

Result<void> AgentSetup::Undo() const {
  KVGATE_TRY(const std::string text, ReadIfThere(note()));
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return MakeError(ErrorCode::kNotFound, "cli",
                     fmt::format("{} was not set up by `kvgate setup`: there is no {}",
                                 agent_->title, note().string()));
  }
  KVGATE_TRY(const std::string now, ReadIfThere(file_));
  KVGATE_TRY(const std::string before, ReadIfThere(backup()));
  const bool was_there = json.value("was_there", true);
  // A crash between the two writes of Write leaves the file as it was.
  const bool is_as_it_was = now == before;
  if (!is_as_it_was && DigestOf(now) != json.value("sha256", "")) {
    return MakeError(
        ErrorCode::kInvalidArgument, "cli",
        fmt::format("{} was changed since: take kvgate's address ({}) out of it by "
                    "hand, or copy {} over it; then remove {}",
                    file_.string(), json.value("origin", ""), backup().string(), note().string()));
  }
  std::error_code ignored;
  if (!was_there) {
    fs::remove(file_, ignored);
  } else if (!is_as_it_was) {
    struct stat found {};
    const bool is_there = stat(file_.c_str(), &found) == 0;
    KVGATE_TRY_VOID(Replace(file_, before, is_there ? found.st_mode & 07777 : kNewFileMode));
  }
  fs::remove(backup(), ignored);
  fs::remove(note(), ignored);
  return {};
}

}  // namespace kvgate::cli::agents
