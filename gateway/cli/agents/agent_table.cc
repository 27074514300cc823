#include "gateway/cli/agents/agent_table.h"

#include <fmt/format.h>

#include "base/check.h"
#include "gateway/cli/agents/agents_data.h"

namespace kvgate::cli::agents {
namespace {

using Json = nlohmann::json;
// The order of variables and arguments is that of the file.
using OrderedJson = nlohmann::ordered_json;

std::vector<ConfigEdit> EditsOf(const OrderedJson& object) {
  std::vector<ConfigEdit> edits;
  const OrderedJson list = object.value("set", OrderedJson::array());
  for (const OrderedJson& edit : list) {
    edits.push_back({.at = edit.at("at").get<std::vector<std::string>>(), .to = edit.at("to")});
  }
  return edits;
}

LaunchLayer LayerOf(const OrderedJson& agent, const char* name) {
  LaunchLayer layer;
  const OrderedJson json = agent.value(name, OrderedJson::object());
  const OrderedJson variables = json.value("env", OrderedJson::object());
  for (const auto& [variable, value] : variables.items()) {
    layer.environment.emplace_back(variable, Json(value));
  }
  const OrderedJson arguments = json.value("arguments", OrderedJson::array());
  for (const OrderedJson& argument : arguments) layer.arguments.emplace_back(argument);
  const OrderedJson files = json.value("files", OrderedJson::array());
  for (const OrderedJson& file : files) {
    OverlayFile made{
        .name = file.at("name"), .from = file.value("from", ""), .edits = EditsOf(file)};
    const OrderedJson lines = file.value("lines", OrderedJson::array());
    for (const OrderedJson& line : lines) {
      made.lines += line.get<std::string>() + '\n';
    }
    layer.files.push_back(std::move(made));
  }
  return layer;
}

std::optional<SetupFile> SetupOf(const OrderedJson& agent) {
  if (!agent.contains("setup")) return std::nullopt;
  const OrderedJson& json = agent.at("setup");
  const std::string format = json.at("format");
  return SetupFile{.directory_env = json.at("directory_env"),
                   .directory = json.at("directory"),
                   .file = json.at("file"),
                   .format = format == "toml"   ? ConfigFormat::kToml
                             : format == "yaml" ? ConfigFormat::kYaml
                                                : ConfigFormat::kJson,
                   .edits = EditsOf(json)};
}

Agent AgentOf(const OrderedJson& json) {
  return {.name = json.value("name", ""),
          .title = json.value("title", ""),
          .commands = json.value("commands", std::vector<std::string>()),
          .install = json.value("install", ""),
          .run = LayerOf(json, "run"),
          .key = LayerOf(json, "key"),
          .local = LayerOf(json, "local"),
          .setup = SetupOf(json)};
}

struct Table {
  std::vector<Agent> agents;
  Agent others;
};

// The file is part of the program, and a test reads all of it.
const Table& TheTable() {
  static const Table table = [] {
    const OrderedJson json = OrderedJson::parse(kAgentsJson, nullptr, false);
    KVGATE_CHECK(json.is_object(), "agents.json");
    Table made{.agents = {}, .others = AgentOf(json.at("others"))};
    for (const OrderedJson& agent : json.at("agents")) made.agents.push_back(AgentOf(agent));
    return made;
  }();
  return table;
}

}  // namespace

const std::vector<Agent>& KnownAgents() { return TheTable().agents; }

const Agent& AgentOfCommand(std::string_view command) {
  const std::string_view last = command.substr(command.rfind('/') + 1);
  for (const Agent& agent : KnownAgents()) {
    for (const std::string& known : agent.commands) {
      if (known == last) return agent;
    }
  }
  return TheTable().others;
}

const Agent* FindAgent(std::string_view name) {
  for (const Agent& agent : KnownAgents()) {
    if (agent.name == name) return &agent;
  }
  return nullptr;
}

Places PlacesOf(std::string_view origin) {
  return {{"origin", std::string(origin)}, {"v1", fmt::format("{}/v1", origin)}};
}

std::string Filled(std::string_view text, const Places& places) {
  std::string filled;
  while (true) {
    const size_t begin = text.find("${");
    const size_t end = text.find('}', begin == std::string_view::npos ? text.size() : begin);
    if (end == std::string_view::npos) return filled.append(text);
    filled.append(text.substr(0, begin));
    const auto found = places.find(std::string(text.substr(begin + 2, end - begin - 2)));
    filled.append(found == places.end() ? text.substr(begin, end + 1 - begin)
                                        : std::string_view(found->second));
    text.remove_prefix(end + 1);
  }
}

Json FilledJson(const Json& value, const Places& places) {
  if (value.is_string()) return Filled(value.get_ref<const std::string&>(), places);
  if (!value.is_structured()) return value;
  Json filled = value.is_object() ? Json::object() : Json::array();
  for (const auto& [name, member] : value.items()) {
    if (value.is_object()) {
      filled[Filled(name, places)] = FilledJson(member, places);
    } else {
      filled.push_back(FilledJson(member, places));
    }
  }
  return filled;
}

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace kvgate::cli::agents
