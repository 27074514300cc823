// Command-line options for pinning, shared by `warm` and `cache pin`.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace kvgate::cli {

struct PinFlags {
  std::string name;
  std::string version;
  int priority = 0;         // 0: not given
  int64_t ttl_seconds = 0;  // 0: no expiry
};

inline void AddPinFlags(CLI::App& app, PinFlags& flags) {
  app.add_option("--name", flags.name,
                 "a name for it; a newer version takes the older one's place");
  app.add_option("--version", flags.version, "of the name");
  app.add_option("--priority", flags.priority, "higher: in memory first, and longest");
  app.add_option("--ttl", flags.ttl_seconds, "seconds until the pin ends by itself");
}

// The JSON form that the endpoints take, without the options that were not given.
inline nlohmann::json ToJson(const PinFlags& flags) {
  nlohmann::json json = nlohmann::json::object();
  if (!flags.name.empty()) json["name"] = flags.name;
  if (!flags.version.empty()) json["version"] = flags.version;
  if (flags.priority != 0) json["priority"] = flags.priority;
  if (flags.ttl_seconds != 0) json["ttl_seconds"] = flags.ttl_seconds;
  return json;
}

}  // namespace kvgate::cli
