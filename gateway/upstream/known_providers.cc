#include "gateway/upstream/known_providers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kvgate::upstream {
namespace {

struct Table {
  size_t key_bytes_min = 0;  // no provider's key is shorter
  std::vector<KnownProvider> providers;
};

// The file is part of the program and tested, so reading it does not fail.
const Table& TheTable() {
  static const Table table = [] {
    const auto json = nlohmann::json::parse(kKnownProvidersJson);
    Table read{.key_bytes_min = json.at("key_bytes_min"), .providers = {}};
    for (const auto& row : json.at("providers")) {
      read.providers.push_back({.name = row.at("name"),
                                .title = row.at("title"),
                                .dialect = row.at("dialect"),
                                .base_url = row.at("base_url"),
                                .models = row.at("models"),
                                .endpoints = row.at("endpoints"),
                                .key_env = row.at("key_env"),
                                .credentials = row.at("credentials")});
    }
    return read;
  }();
  return table;
}

}  // namespace

const std::vector<KnownProvider>& KnownProviders() { return TheTable().providers; }

std::string_view KindOfCredential(std::string_view credential) {
  std::string_view kind;
  if (credential.size() < TheTable().key_bytes_min) return kind;
  for (const KnownProvider& provider : KnownProviders()) {
    for (const std::string& beginning : provider.credentials) {
      if (beginning.size() > kind.size() && credential.starts_with(beginning)) kind = beginning;
    }
  }
  return kind;
}

std::vector<config::UpstreamConfig> UpstreamsOfKind(std::string_view kind) {
  std::vector<config::UpstreamConfig> upstreams;
  for (const KnownProvider& provider : KnownProviders()) {
    if (std::ranges::find(provider.credentials, kind) == provider.credentials.end()) continue;
    config::UpstreamConfig& upstream = upstreams.emplace_back();
    upstream.name = provider.name;
    upstream.dialect = provider.dialect;
    upstream.base_url = provider.base_url;
    upstream.models = provider.models;
    upstream.endpoints = provider.endpoints;
  }
  return upstreams;
}

}  // namespace kvgate::upstream
