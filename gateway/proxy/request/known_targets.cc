#include "gateway/proxy/request/known_targets.h"

#include <utility>

#include "base/log.h"
#include "gateway/proxy/request/caller.h"
#include "gateway/upstream/known_providers.h"

namespace kvgate::proxy::request {

std::shared_ptr<const Targets> KnownTargets::For(std::string_view credential) const {
  const std::string_view kind = upstream::KindOfCredential(credential);
  if (kind.empty()) return nullptr;
  const std::lock_guard lock(mutex_);
  if (const auto found = kinds_.find(kind); found != kinds_.end()) return found->second;
  TargetOptions options = options_;
  options.upstreams = upstream::UpstreamsOfKind(kind);
  options.lists_models = options.upstreams.size() == 1;
  auto targets = Targets::Open(options, /*has_local=*/true, nullptr);
  if (!targets) {
    KVGATE_LOG(kError, "proxy", "requests with a credential '{}...' stay here: {}", kind,
               targets.error().ToString());
    targets = nullptr;
  }
  return kinds_.emplace(kind, *std::move(targets)).first->second;
}

std::shared_ptr<const Targets> TargetsFor(std::shared_ptr<const Targets> targets,
                                          const upstream::wire::HeaderFields& fields) {
  if (targets->known == nullptr) return targets;
  std::string_view credential = ApiKeyOf(fields);
  if (credential.empty()) {
    credential = BearerOf(upstream::wire::FindHeader(fields, "authorization"));
  }
  auto known = targets->known->For(credential);
  return known ? known : targets;
}

}  // namespace kvgate::proxy::request
