// Upstreams: all configured ones, and which of them a request goes to.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/upstream/dialect.h"
#include "gateway/upstream/upstream.h"

namespace kvgate::upstream {

// What a path is to us: whose dialect, which endpoint.
struct PathKind {
  Dialect dialect = Dialect::kOpenAi;
  Endpoint endpoint = Endpoint::kOther;
};
// `path` without a query. What both dialects have (/v1/models) is Anthropic's where the caller
// sends anthropic-version.
PathKind KindOf(std::string_view path, bool has_anthropic_version);

// Where a request for an endpoint that the upstream has not goes instead, in other words: a body of
// Chat Completions, Responses or Messages as one of the other two. Nothing: it has the endpoint, or
// nothing that stands for it.
std::optional<Endpoint> TranslatedEndpoint(Endpoint endpoint, const Upstream& upstream);

class Upstreams {
 public:
  // Of `previous`, which may be null, it keeps those that are configured as they were, but not one
  // with a CA file, which may hold others now.
  static Result<std::unique_ptr<Upstreams>> Open(const std::vector<config::UpstreamConfig>& configs,
                                                 const Environment& environment,
                                                 const Upstreams* previous = nullptr);

  bool empty() const { return upstreams_.empty(); }
  const std::vector<std::shared_ptr<Upstream>>& all() const { return upstreams_; }

  struct Query {
    Dialect dialect = Dialect::kOpenAi;
    Endpoint endpoint = Endpoint::kOther;
    std::string_view name = {};   // asked for by x-kvgate-upstream; empty: by nobody
    std::string_view model = {};  // of the body or the path; empty: not known
    bool unknown_path = false;    // only those with forward_unknown are asked
  };
  // By name; else the first of the dialect whose globs match the model, and that has the endpoint;
  // else the first for which the request can be translated; without a model the only one of the
  // dialect. kNotFound: no such name, model or dialect. kInvalidArgument: several could
  // be meant.
  Result<Upstream*> Choose(const Query& query) const;
  // Null: there is none of that name.
  Upstream* Find(std::string_view name) const;
  // Whether one serves the model, in the query's dialect or translated.
  bool Serves(const Query& query) const { return FindServing(query) != nullptr; }

 private:
  std::shared_ptr<Upstream> FindShared(std::string_view name) const;
  Upstream* FindServing(const Query& query) const;

  std::vector<std::shared_ptr<Upstream>> upstreams_;
};

}  // namespace kvgate::upstream
