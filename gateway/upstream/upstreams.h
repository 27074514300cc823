// Upstreams: all configured upstreams, and the choice of one for a request.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/dialect.h"
#include "gateway/upstream/upstream.h"

namespace kvgate::upstream {

// The dialect and endpoint that a path belongs to.
struct PathKind {
  dialect::form::Api dialect = dialect::form::Api::kOpenAi;
  dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
};
// `path` comes without its query. A path of both dialects (/v1/models) counts as Anthropic's if the
// caller sends anthropic-version.
PathKind KindOf(std::string_view path, bool has_anthropic_version);

// Returns the endpoint that a request is translated for if the upstream lacks `endpoint`; Chat
// Completions, Responses, Messages and Gemini's generateContent stand in for one another. Returns
// nullopt if the upstream has the endpoint or no substitute for it.
std::optional<dialect::form::Endpoint> TranslatedEndpoint(dialect::form::Endpoint endpoint,
                                                          const Upstream& upstream);

class Upstreams {
 public:
  // Keeps the upstreams of `previous`, which may be null, whose configuration has not changed,
  // except those with a CA file, whose content may have changed.
  static Result<std::unique_ptr<Upstreams>> Open(
      const std::vector<config::UpstreamConfig>& configs, const wire::Environment& environment,
      const Upstreams* previous = nullptr,
      const wire::MakeDialer& make_dialer = wire::TcpDialer::Make);

  bool empty() const { return upstreams_.empty(); }
  const std::vector<std::shared_ptr<Upstream>>& all() const { return upstreams_; }

  struct Query {
    dialect::form::Api dialect = dialect::form::Api::kOpenAi;
    dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
    std::string_view name = {};   // from x-kvgate-upstream; empty: not sent
    std::string_view model = {};  // from the body or the path; empty: not known
    bool unknown_path = false;    // only upstreams with forward_unknown qualify
  };
  // Chooses by name; else the first of the dialect that has the endpoint and whose globs match the
  // model; else the first for which the request can be translated; without a model, the only one of
  // the dialect. Fails with kNotFound if no upstream has the name, model or dialect, and with
  // kInvalidArgument if several could be meant.
  Result<Upstream*> Choose(const Query& query) const;
  // Returns null if there is none of that name.
  Upstream* Find(std::string_view name) const;
  // Returns true if an upstream serves the model, in the query's dialect or translated.
  bool Serves(const Query& query) const { return FindServing(query) != nullptr; }

 private:
  std::shared_ptr<Upstream> FindShared(std::string_view name) const;
  Upstream* FindServing(const Query& query) const;

  std::vector<std::shared_ptr<Upstream>> upstreams_;
};

}  // namespace kvgate::upstream
