// ServerTarget: which server a command talks to, and as whom. All commands that talk to one take
// the same two flags.
#pragma once

#include <filesystem>
#include <string>

#include <kvgate/result.h>

#include "gateway/cli/server/http_client.h"
#include "store/rocks_data_directory.h"

namespace CLI {
class App;
}

namespace kvgate::cli {

struct TargetFlags {
  std::string url;      // --url; empty: the server that holds the data directory
  std::string key_env;  // --key-env: the variable with the caller's key; empty: none
};
void AddTargetFlags(CLI::App& app, TargetFlags& flags);

// What a client with that key sends; empty: none. kInvalidArgument: the variable is not set.
Result<std::string> AuthorizationOf(const TargetFlags& flags);

// The server of --url, else the one that holds the directory, with the token that makes the command
// an admin there. An empty URL: neither.
store::ServerAddress FindServer(const TargetFlags& flags, const std::filesystem::path& directory);

// `request`, whose URL is a path, to that server.
HttpRequest RequestTo(const store::ServerAddress& server, HttpRequest request);

}  // namespace kvgate::cli
