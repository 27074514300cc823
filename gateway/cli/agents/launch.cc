#include "gateway/cli/agents/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "gateway/cli/agents/config_edit.h"

namespace kvgate::cli::agents {
namespace {

void Remove(const std::string& name, std::vector<std::pair<std::string, std::string>>& values) {
  std::erase_if(values, [&](const auto& entry) { return entry.first == name; });
}

Result<std::string> ContentOf(const OverlayFile& file, const Places& places) {
  if (!file.lines.empty()) return Filled(file.lines, places);
  std::string text;
  if (!file.from.empty()) {
    KVGATE_TRY(text, ReadIfThere(InHome(file.from)));
  }
  std::vector<ConfigEdit> edits = file.edits;
  for (ConfigEdit& edit : edits) edit.to = FilledJson(edit.to, places);
  Result<std::string> edited = ApplyEdits(text, ConfigFormat::kJson, edits);
  if (edited) return edited;
  return MakeError(ErrorCode::kInvalidArgument, "cli",
                   fmt::format("{}: {}", file.from, edited.error().detail));
}

// A later layer replaces variables and files of an earlier one, and adds to its arguments.
Result<void> Apply(const LaunchLayer& layer, const Places& places, Launch& launch) {
  for (const auto& [name, value] : layer.environment) {
    Remove(name, launch.variables);
    std::erase(launch.removed, name);
    if (value.is_null()) {
      launch.removed.push_back(name);
    } else {
      launch.variables.emplace_back(name, TextOf(FilledJson(value, places)));
    }
  }
  for (const nlohmann::json& argument : layer.arguments) {
    launch.arguments.push_back(TextOf(FilledJson(argument, places)));
  }
  for (const OverlayFile& file : layer.files) {
    KVGATE_TRY(std::string content, ContentOf(file, places));
    Remove(file.name, launch.files);
    launch.files.emplace_back(file.name, std::move(content));
  }
  return {};
}

}  // namespace

std::filesystem::path InHome(std::string_view path) {
  const char* const home = std::getenv("HOME");
  if (!path.starts_with('~') || home == nullptr) return path;
  return std::filesystem::path(home) /
         path.substr(std::min(path.find_first_not_of("~/"), path.size()));
}

Result<std::string> ReadIfThere(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return std::string();
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file && !std::filesystem::is_directory(path, code)) return text;
  return MakeError(ErrorCode::kIo, "cli", fmt::format("{} cannot be read", path.string()));
}

Result<Launch> PlanLaunch(const Agent& agent, const LaunchArgs& args) {
  Places places = PlacesOf(args.origin);
  places["overlay"] = args.overlay;
  places["key"] = args.key;
  places["model"] = args.model;
  Launch launch;
  KVGATE_TRY_VOID(Apply(agent.run, places, launch));
  if (!args.key.empty()) {
    KVGATE_TRY_VOID(Apply(agent.key, places, launch));
  }
  if (!args.model.empty()) {
    KVGATE_TRY_VOID(Apply(agent.local, places, launch));
  }
  return launch;
}

}  // namespace kvgate::cli::agents
