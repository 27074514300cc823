// The agents that `kvgate run` and `kvgate setup` know, as data: agents.json, which is built into
// the program. What each needs so that it talks to kvgate is said there, in layers: `run` always
// applies, `key` where the gateway's own key is used, `local` where the local model answers.
//
// Texts hold places to be filled in: ${origin} (http://127.0.0.1:8080), ${v1} (the same with /v1),
// ${model}, ${key}, ${overlay} (the folder of generated files) and ${config_home}. Pure, immutable.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::cli::agents {

// A value of a configuration file, at a path of member names.
struct ConfigEdit {
  std::vector<std::string> at = {};
  nlohmann::json to = {};
};

// A file that is generated for one run: lines of text, or a JSON file of the user's with edits.
struct OverlayFile {
  std::string name = {};
  std::string lines = {};  // its text; empty: it is `from` with the edits
  std::string from = {};   // empty, or not there: the edits stand alone
  std::vector<ConfigEdit> edits = {};
};

struct LaunchLayer {
  // Variables of the child; null removes one. An object becomes its JSON text.
  std::vector<std::pair<std::string, nlohmann::json>> environment = {};
  std::vector<nlohmann::json> arguments = {};  // in front of the user's own; as above
  std::vector<OverlayFile> files = {};
};

enum class ConfigFormat { kJson, kToml, kYaml };

// The agent's own configuration file, and what `setup` writes there.
struct SetupFile {
  std::string directory_env = {};  // a variable that names its directory; empty: there is none
  std::string directory = {};
  std::string file = {};
  ConfigFormat format = ConfigFormat::kJson;
  std::vector<ConfigEdit> edits = {};
};

struct Agent {
  std::string name = {};  // empty: the row for all other commands
  std::string title = {};
  std::vector<std::string> commands = {};
  std::string install = {};
  LaunchLayer run = {};
  LaunchLayer key = {};
  LaunchLayer local = {};
  std::optional<SetupFile> setup = {};  // not set: only `run` works
};

// In the order of the file.
const std::vector<Agent>& KnownAgents();
// The row whose commands have the last part of this path; else the row for other commands.
const Agent& AgentOfCommand(std::string_view command);
// Null if there is none of that name.
const Agent* FindAgent(std::string_view name);

// What stands for the places in the texts.
using Places = std::map<std::string, std::string>;  // "origin" -> "http://127.0.0.1:8080"
// The places of a server, whose address is without a path.
Places PlacesOf(std::string_view origin);
// Fills in all places of a text; unknown ones stay as they are.
std::string Filled(std::string_view text, const Places& places);
// The same in all texts and member names of a value.
nlohmann::json FilledJson(const nlohmann::json& value, const Places& places);
// A text as it is, anything else as its JSON.
std::string TextOf(const nlohmann::json& value);

}  // namespace kvgate::cli::agents
