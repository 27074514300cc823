// Upstreams: all configured ones, and which of them a request goes to.
#pragma once

#include <memory>
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

class Upstreams {
 public:
  static Result<std::unique_ptr<Upstreams>> Open(const std::vector<config::UpstreamConfig>& configs,
                                                 const Environment& environment);

  bool empty() const { return upstreams_.empty(); }
  const std::vector<std::unique_ptr<Upstream>>& all() const { return upstreams_; }

  struct Query {
    Dialect dialect = Dialect::kOpenAi;
    std::string_view name = {};   // asked for by x-kvgate-upstream; empty: by nobody
    std::string_view model = {};  // of the body or the path; empty: not known
  };
  // By name; else the first of the dialect whose globs match the model; without a model the only
  // one of the dialect. kNotFound: no such name, model or dialect. kInvalidArgument: several could
  // be meant.
  Result<Upstream*> Choose(const Query& query) const;
  // Null: there is none of that name.
  Upstream* Find(std::string_view name) const;
  // Whether one of the dialect serves the model.
  bool Serves(Dialect dialect, std::string_view model) const;

 private:
  std::vector<std::unique_ptr<Upstream>> upstreams_;
};

}  // namespace kvgate::upstream
