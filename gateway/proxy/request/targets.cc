#include "gateway/proxy/request/targets.h"

#include <string>
#include <utility>

#include "gateway/proxy/request/known_targets.h"
#include "gateway/service/prompts.h"

namespace kvgate::proxy::request {

Result<std::shared_ptr<const Targets>> Targets::Open(const TargetOptions& options, bool has_local,
                                                     const Targets* previous) {
  const auto before = [&](auto member) {
    return previous == nullptr ? nullptr : (previous->*member).get();
  };
  auto targets = std::make_shared<Targets>();
  KVGATE_TRY(targets->upstreams,
             upstream::Upstreams::Open(options.upstreams, upstream::wire::ProcessEnvironment,
                                       before(&Targets::upstreams), options.make_dialer));
  KVGATE_TRY(targets->keys,
             access::GatewayKeys::Open(options.keys, upstream::wire::ProcessEnvironment,
                                       before(&Targets::keys), options.metrics));
  targets->budgets =
      access::BudgetTable(options.keys, options.tenant_budgets, options.budget_thresholds);
  targets->engine = service::LocalUpstream(options.engine);
  targets->lists_models = options.lists_models;
  std::vector<std::string> names;
  for (const auto& upstream : targets->upstreams->all()) names.push_back(upstream->name());
  KVGATE_TRY(targets->routes,
             route::RouteTable::Open(options.routes, names, has_local, before(&Targets::routes)));
  if (options.serves_known_providers && options.upstreams.empty() && options.keys.empty()) {
    targets->known = std::make_shared<KnownTargets>(options);
  }
  return std::shared_ptr<const Targets>(std::move(targets));
}

}  // namespace kvgate::proxy::request
