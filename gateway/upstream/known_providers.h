// The providers that kvgate knows by name, as data (known_providers.json): `kvgate init` offers
// them, and a server without upstreams passes requests with their credentials on to them. Pure,
// immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gateway/config/config.h"

namespace kvgate::upstream {

struct KnownProvider {
  std::string name = {};   // of the upstream, too
  std::string title = {};  // for people
  std::string dialect = {};
  std::string base_url = {};
  std::vector<std::string> models = {};     // globs
  std::vector<std::string> endpoints = {};  // as config::UpstreamConfig::endpoints
  std::string key_env = {};                 // the variable that the provider's own SDKs read
  // How its keys begin; empty: nothing tells its keys from others'.
  std::vector<std::string> credentials = {};
};

const std::vector<KnownProvider>& KnownProviders();

// Returns how the known keys begin that look most like this credential, "sk-ant-"; empty if it
// looks like none of them, as a placeholder of a few letters does.
std::string_view KindOfCredential(std::string_view credential);
// Returns the providers whose keys begin so, as upstreams that get their callers' own credentials.
std::vector<config::UpstreamConfig> UpstreamsOfKind(std::string_view kind);

extern const char* const kKnownProvidersJson;

}  // namespace kvgate::upstream
