#include "gateway/proxy/handler/model_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/ledger/prices.h"
#include "gateway/proxy/handler/fold_runner.h"
#include "gateway/upstream/model_list.h"

namespace kvgate::proxy::handler {

using dialect::form::Dialect;

namespace {

// Fields of the lists of vLLM, OpenRouter, Anthropic and llama-swap; none is of OpenAI's own.
constexpr const char* kContextFields[] = {"max_model_len", "context_length", "max_input_tokens",
                                          "context_window"};

int64_t ListedContext(const RequestContext& request, const upstream::Upstream& upstream,
                      std::string_view model) {
  const auto models = request.environment().model_lists.FindStale(
      fmt::format("{} {}", upstream.name(), request.caller().tenant()));
  if (!models) return 0;
  const auto found = std::find_if(models->begin(), models->end(),
                                  [&](const auto& listed) { return listed.id == model; });
  if (found == models->end()) return 0;
  const auto json = nlohmann::json::parse(found->json, nullptr, false);
  if (!json.is_object()) return 0;
  for (const char* field : kContextFields) {
    const auto value = json.find(field);
    if (value != json.end() && value->is_number_integer()) {
      return std::max<int64_t>(0, value->get<int64_t>());
    }
  }
  return 0;
}

int64_t ContextAt(const RequestContext& request, const upstream::Upstream& upstream,
                  std::string_view model) {
  if (const int set = upstream.config().context_tokens; set > 0) return set;
  if (const int64_t listed = ListedContext(request, upstream, model); listed > 0) return listed;
  const ledger::Prices* const prices = request.environment().options.prices;
  const ledger::PriceRow* const row =
      prices == nullptr ? nullptr : prices->Find(upstream.provider(), model);
  return row == nullptr ? 0 : row->context_tokens;
}

}  // namespace

std::vector<MaybeTarget> TargetsOf(const RequestContext& request, Dialect dialect,
                                   const std::string& model) {
  std::vector<MaybeTarget> found;
  const request::Targets& targets = request.targets();
  const std::string_view named = request.Header("x-kvgate-upstream");
  route::Route* const route =
      named.empty() && !targets.routes->empty() ? targets.routes->Find(model) : nullptr;
  if (route == nullptr) {
    const upstream::PathKind kind = upstream::KindOf(PathOf(dialect), false);
    const Result<upstream::Upstream*> chosen = targets.upstreams->Choose(
        {.dialect = kind.dialect, .endpoint = kind.endpoint, .name = named, .model = model});
    if (chosen) found.push_back({*chosen, model});
    return found;
  }
  for (const auto* list : {&route->config().targets, &route->config().fallback}) {
    for (const std::string& target : *list) {
      const size_t slash = std::min(target.find('/'), target.size());
      const upstream::Upstream* const upstream = targets.upstreams->Find(target.substr(0, slash));
      const std::string name = slash < target.size() ? target.substr(slash + 1) : model;
      found.push_back({upstream, name});
    }
  }
  return found;
}

int64_t ContextOf(const RequestContext& request, Dialect dialect, const std::string& model) {
  int64_t fewest = 0;
  for (const auto& [upstream, name] : TargetsOf(request, dialect, model)) {
    if (upstream == nullptr) continue;
    const int64_t tokens = ContextAt(request, *upstream, name);
    if (tokens > 0 && (fewest == 0 || tokens < fewest)) fewest = tokens;
  }
  return fewest;
}

}  // namespace kvgate::proxy::handler
