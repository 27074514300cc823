// ServerTarget: the server that a command talks to and the key it uses. All such commands take the
// same two flags.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "gateway/cli/server/http_client.h"
#include "store/rocks_data_directory.h"

namespace CLI {
class App;
}

namespace kvgate::cli::server {

struct TargetFlags {
  std::string url;      // --url; empty: the server that holds the data directory
  std::string key_env;  // --key-env: the variable with the caller's key; empty: none
};
void AddTargetFlags(CLI::App& app, TargetFlags& flags);

// The Authorization header for the key; empty if there is none. Fails with kInvalidArgument if the
// variable is not set.
Result<std::string> AuthorizationOf(const TargetFlags& flags);

// Returns the server of --url, else the one that holds the directory, with the token that makes the
// command an admin there. The URL is empty if there is neither.
store::ServerAddress FindServer(const TargetFlags& flags, const std::filesystem::path& directory);

// As FindServer, for commands that need one: fails with kUnavailable and says what to do.
Result<store::ServerAddress> RequireServer(const TargetFlags& flags,
                                           const std::filesystem::path& directory);

// Addresses `request`, whose URL is only a path, to that server.
HttpRequest RequestTo(const store::ServerAddress& server, HttpRequest request);

}  // namespace kvgate::cli::server
