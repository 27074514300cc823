#include "gateway/upstream/upstreams.h"

#include <fmt/format.h>

#include <iterator>

namespace kvgate::upstream {

using wire::Dialect;
using wire::Endpoint;

PathKind KindOf(std::string_view path, bool has_anthropic_version) {
  static constexpr std::pair<std::string_view, PathKind> kPaths[] = {
      {"/v1/chat/completions", {Dialect::kOpenAi, Endpoint::kChatCompletions}},
      {"/v1/completions", {Dialect::kOpenAi, Endpoint::kCompletions}},
      {"/v1/responses", {Dialect::kOpenAi, Endpoint::kResponses}},
      {"/v1/embeddings", {Dialect::kOpenAi, Endpoint::kEmbeddings}},
      {"/v1/messages", {Dialect::kAnthropic, Endpoint::kMessages}},
      {"/v1/messages/count_tokens", {Dialect::kAnthropic, Endpoint::kCountTokens}}};
  for (const auto& [known, kind] : kPaths) {
    if (path == known) return kind;
  }
  const bool anthropic = path.starts_with("/v1/messages/") || has_anthropic_version;
  const bool models = path == "/v1/models" || path.starts_with("/v1/models/");
  return {.dialect = anthropic ? Dialect::kAnthropic : Dialect::kOpenAi,
          .endpoint = models ? Endpoint::kModels : Endpoint::kOther};
}

Result<std::unique_ptr<Upstreams>> Upstreams::Open(
    const std::vector<config::UpstreamConfig>& configs, const wire::Environment& environment,
    const Upstreams* previous, const wire::MakeDialer& make_dialer) {
  auto upstreams = std::make_unique<Upstreams>();
  for (const config::UpstreamConfig& config : configs) {
    KVGATE_TRY(std::shared_ptr<Upstream> upstream,
               Upstream::Open(config, environment, make_dialer));
    std::shared_ptr<Upstream> before = previous ? previous->FindShared(config.name) : nullptr;
    const bool same = before && config.ca_file.empty() && before->config() == config &&
                      before->api_key() == upstream->api_key();
    upstreams->upstreams_.push_back(same ? std::move(before) : std::move(upstream));
  }
  return upstreams;
}

std::optional<Endpoint> TranslatedEndpoint(Endpoint endpoint, const Upstream& upstream) {
  const bool chat = upstream.Has(Endpoint::kChatCompletions);
  const bool responses = upstream.Has(Endpoint::kResponses);
  switch (endpoint) {
    case Endpoint::kChatCompletions:
    case Endpoint::kResponses:
      if (upstream.dialect() == Dialect::kAnthropic) return Endpoint::kMessages;
      if (upstream.Has(endpoint)) return std::nullopt;
      return chat ? Endpoint::kChatCompletions : Endpoint::kResponses;
    case Endpoint::kMessages:
      if (upstream.dialect() == Dialect::kAnthropic || !(chat || responses)) return std::nullopt;
      return chat ? Endpoint::kChatCompletions : Endpoint::kResponses;
    default:
      return std::nullopt;
  }
}

namespace {

bool Takes(const Upstream& upstream, const Upstreams::Query& query) {
  return !query.unknown_path || upstream.config().forward_unknown;
}

}  // namespace

Upstream* Upstreams::FindServing(const Query& query) const {
  for (const auto& upstream : upstreams_) {
    if (Takes(*upstream, query) && upstream->dialect() == query.dialect &&
        upstream->Has(query.endpoint) && upstream->Serves(query.model)) {
      return upstream.get();
    }
  }
  for (const auto& upstream : upstreams_) {
    const bool counts = query.endpoint == Endpoint::kCountTokens;
    if ((counts || TranslatedEndpoint(query.endpoint, *upstream)) &&
        upstream->Serves(query.model)) {
      return upstream.get();
    }
  }
  return nullptr;
}

std::shared_ptr<Upstream> Upstreams::FindShared(std::string_view name) const {
  for (const auto& upstream : upstreams_) {
    if (upstream->name() == name) return upstream;
  }
  return nullptr;
}

Upstream* Upstreams::Find(std::string_view name) const { return FindShared(name).get(); }

Result<Upstream*> Upstreams::Choose(const Query& query) const {
  std::vector<Upstream*> candidates;
  for (const auto& upstream : upstreams_) {
    if (!Takes(*upstream, query)) continue;
    if (!query.name.empty()) {
      if (upstream->name() == query.name) return upstream.get();
    } else if (upstream->dialect() == query.dialect && query.model.empty()) {
      candidates.push_back(upstream.get());
    }
  }
  if (query.name.empty() && !query.model.empty()) {
    if (Upstream* const serving = FindServing(query)) candidates.push_back(serving);
  }
  if (!query.name.empty()) {
    return MakeError(ErrorCode::kNotFound, "upstream",
                     fmt::format("There is no upstream '{}' (x-kvgate-upstream).", query.name));
  }
  if (candidates.empty() && !query.model.empty()) {
    return MakeError(ErrorCode::kNotFound, "upstream",
                     fmt::format("The model '{}' does not exist here: no {} upstream serves it.",
                                 query.model, wire::DialectName(query.dialect)),
                     "model");
  }
  if (candidates.empty()) {
    return MakeError(
        ErrorCode::kNotFound, "upstream",
        fmt::format("There is no {} upstream here.", wire::DialectName(query.dialect)));
  }
  if (query.model.empty() && candidates.size() > 1) {
    return MakeError(ErrorCode::kInvalidArgument, "upstream",
                     fmt::format("The request names no model and there are {} {} upstreams; name "
                                 "one by the header x-kvgate-upstream.",
                                 candidates.size(), wire::DialectName(query.dialect)));
  }
  return candidates.front();
}

}  // namespace kvgate::upstream
