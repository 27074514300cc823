#include "gateway/upstream/upstreams.h"

#include <fmt/format.h>

#include <iterator>

namespace kvgate::upstream {

using dialect::form::Api;
using dialect::form::Endpoint;

PathKind KindOf(std::string_view path, bool has_anthropic_version) {
  static constexpr std::pair<std::string_view, PathKind> kPaths[] = {
      {"/v1/chat/completions", {Api::kOpenAi, Endpoint::kChatCompletions}},
      {"/v1/completions", {Api::kOpenAi, Endpoint::kCompletions}},
      {"/v1/responses", {Api::kOpenAi, Endpoint::kResponses}},
      {"/v1/embeddings", {Api::kOpenAi, Endpoint::kEmbeddings}},
      {"/v1/messages", {Api::kAnthropic, Endpoint::kMessages}},
      {"/v1/messages/count_tokens", {Api::kAnthropic, Endpoint::kCountTokens}}};
  for (const auto& [known, kind] : kPaths) {
    if (path == known) return kind;
  }
  if (path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent")) {
    return {.dialect = Api::kGemini, .endpoint = Endpoint::kGenerateContent};
  }
  if (path.ends_with(":countTokens")) {
    return {.dialect = Api::kGemini, .endpoint = Endpoint::kCountContent};
  }
  if (path.starts_with("/v1beta/")) {
    const bool lists = path == "/v1beta/models" || path.starts_with("/v1beta/models/");
    return {.dialect = Api::kGemini, .endpoint = lists ? Endpoint::kModels : Endpoint::kOther};
  }
  const bool anthropic = path.starts_with("/v1/messages/") || has_anthropic_version;
  const bool models = path == "/v1/models" || path.starts_with("/v1/models/");
  return {.dialect = anthropic ? Api::kAnthropic : Api::kOpenAi,
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
  const bool gemini = upstream.dialect() == Api::kGemini;
  switch (endpoint) {
    case Endpoint::kChatCompletions:
    case Endpoint::kResponses:
      if (upstream.dialect() == Api::kAnthropic) return Endpoint::kMessages;
      if (gemini) return Endpoint::kGenerateContent;
      if (upstream.Has(endpoint)) return std::nullopt;
      return chat ? Endpoint::kChatCompletions : Endpoint::kResponses;
    case Endpoint::kMessages:
    case Endpoint::kGenerateContent:
      if (upstream.Has(endpoint)) return std::nullopt;
      if (gemini) return Endpoint::kGenerateContent;
      if (upstream.dialect() == Api::kAnthropic) return Endpoint::kMessages;
      if (!(chat || responses)) return std::nullopt;
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
    const bool counts =
        query.endpoint == Endpoint::kCountTokens || query.endpoint == Endpoint::kCountContent;
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
                                 query.model, dialect::form::ApiName(query.dialect)),
                     "model");
  }
  if (candidates.empty()) {
    return MakeError(
        ErrorCode::kNotFound, "upstream",
        fmt::format("There is no {} upstream here.", dialect::form::ApiName(query.dialect)));
  }
  if (query.model.empty() && candidates.size() > 1) {
    return MakeError(ErrorCode::kInvalidArgument, "upstream",
                     fmt::format("The request names no model and there are {} {} upstreams; name "
                                 "one by the header x-kvgate-upstream.",
                                 candidates.size(), dialect::form::ApiName(query.dialect)));
  }
  return candidates.front();
}

}  // namespace kvgate::upstream
