// KnownTargets gives a server without upstreams those of a known provider for requests that carry a
// credential of that provider: of whoever has none, nothing is sent. Each kind of credential gets
// targets of its own, opened by its first request and kept. Where keys of several providers begin
// alike, the model that a request names decides, and nothing is sent of one that names none.
// Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "gateway/proxy/request/target_options.h"
#include "gateway/proxy/request/targets.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::proxy::request {

class KnownTargets {
 public:
  // `options` has neither upstreams nor keys.
  explicit KnownTargets(TargetOptions options) : options_(std::move(options)) {}

  // Returns null if the credential is of no known kind, or if its upstreams cannot be opened, which
  // is logged.
  std::shared_ptr<const Targets> For(std::string_view credential) const;

 private:
  const TargetOptions options_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Targets>, std::less<>> kinds_;
};

// Returns the targets of a request with these fields: `targets`, or those of the provider whose
// credential the fields hold.
std::shared_ptr<const Targets> TargetsFor(std::shared_ptr<const Targets> targets,
                                          const upstream::wire::HeaderFields& fields);

}  // namespace kvgate::proxy::request
