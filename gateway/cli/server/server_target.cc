#include "gateway/cli/server/server_target.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <utility>

namespace kvgate::cli::server {

void AddTargetFlags(CLI::App& app, TargetFlags& flags) {
  app.add_option("--url", flags.url,
                 "server, like http://127.0.0.1:8080 (default: the one that holds the data "
                 "directory)");
  // --api-key-env is an alias, kept for existing scripts.
  app.add_option("--key-env,--api-key-env", flags.key_env,
                 "environment variable with the key that clients use, which decides whose things "
                 "are meant");
}

Result<std::string> AuthorizationOf(const TargetFlags& flags) {
  if (flags.key_env.empty()) return std::string();
  const char* const key = std::getenv(flags.key_env.c_str());
  if (key == nullptr || *key == '\0') {
    return MakeError(ErrorCode::kInvalidArgument, "cli",
                     fmt::format("the environment has no {}", flags.key_env));
  }
  return fmt::format("Bearer {}", key);
}

store::ServerAddress FindServer(const TargetFlags& flags, const std::filesystem::path& directory) {
  // A server named by --url may be foreign, so it does not get the admin token.
  store::ServerAddress server{.url = flags.url};
  if (server.url.empty()) {
    server = store::DataDirectory::FindServer(directory).value_or(store::ServerAddress());
  }
  while (server.url.ends_with('/')) server.url.pop_back();
  return server;
}

Result<store::ServerAddress> RequireServer(const TargetFlags& flags,
                                           const std::filesystem::path& directory) {
  store::ServerAddress server = FindServer(flags, directory);
  if (!server.url.empty()) return server;
  return MakeError(ErrorCode::kUnavailable, "cli",
                   "no server holds this data directory: start `kvgate serve`, or name one with "
                   "--url");
}

HttpRequest RequestTo(const store::ServerAddress& server, HttpRequest request) {
  request.url = server.url + request.url;
  request.certificate_sha256 = server.certificate_sha256;
  request.admin_token = server.admin_token;
  return request;
}

}  // namespace kvgate::cli::server
