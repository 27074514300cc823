// The list of models: the local one and those that each upstream reports.
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/log.h"
#include "gateway/http/connection.h"

namespace kvgate::http {
namespace {

using Clock = std::chrono::steady_clock;

// A list that takes longer is left out, so that the others are not delayed.
constexpr std::chrono::seconds kListTimeout{5};
constexpr size_t kListBytesMax = size_t{8} << 20;

}  // namespace

socket::Task<bool> Connection::ServeModels(message::RouteMatch match) {
  const auto& upstreams = targets_->upstreams->all();
  // If there is only one upstream, its list is passed on unchanged, page by page, to callers that
  // may use all of it.
  const bool alone = upstreams.size() == 1 && !context_.service.has_local() &&
                     upstreams.front()->dialect() == kind_.dialect &&
                     (key_ == nullptr || key_->serves_all());
  if (alone) {
    const bool again = co_await ServeForward(std::move(match));
    co_return again;
  }
  if (const Result<void> admitted = AdmitModel("", /*is_unknown=*/false); !admitted) {
    message::Response refusal = message::ErrorResponse(admitted.error());
    const bool again = co_await Send(std::move(refusal), match.name, match.openai_dialect);
    co_return again;
  }
  std::vector<upstream::ListedModel> all;
  const std::string local =
      context_.service.ListModels([this](std::string_view id) { return MayUse(id); });
  if (auto models = upstream::ParseModelList(local, upstream::wire::Dialect::kOpenAi, "kvgate")) {
    all = std::move(*models);
  }
  client_gone_ = false;
  for (const auto& upstream : upstreams) {
    co_await AddModelsOf(*upstream, all);
    if (client_gone_ || cancelled_) co_return false;
  }
  message::Response response{.body = upstream::JoinModelLists(all, kind_.dialect)};
  const bool again = co_await Send(std::move(response), match.name, match.openai_dialect);
  co_return again;
}

// Does not apply the upstream's globs: the list shows what the provider has, and routing decides
// which upstream is asked.
socket::Task<void> Connection::AddModelsOf(upstream::Upstream& upstream,
                                           std::vector<upstream::ListedModel>& all) {
  const std::string key = fmt::format("{} {}", upstream.name(), Tenant());
  auto models = context_.model_lists.Find(key, Clock::now());
  if (!models) {
    std::string body = co_await FetchModels(upstream);
    models = upstream::ParseModelList(std::move(body), upstream.dialect(), upstream.name());
    if (models) {
      context_.model_lists.Put(key, *models, Clock::now());
    } else {
      models = context_.model_lists.FindStale(key);
    }
  }
  if (!models) co_return;
  for (upstream::ListedModel& model : *models) {
    if (MayUse(model.id)) all.push_back(std::move(model));
  }
}

// Returns the body of a 200 answer; else an empty string.
socket::Task<std::string> Connection::FetchModels(upstream::Upstream& upstream) {
  upstream::wire::HeaderFields fields = {{.name = "Accept", .value = "application/json"},
                                         {.name = "User-Agent", .value = "kvgate"}};
  for (const char* passed : {"authorization", "x-api-key"}) {
    if (const std::string_view value = Header(passed); !value.empty()) {
      fields.push_back({.name = passed, .value = value});
    }
  }
  // Servers that speak both dialects use Anthropic's if this header is present.
  if (upstream.dialect() == upstream::wire::Dialect::kAnthropic) {
    const std::string_view version = Header("anthropic-version");
    fields.push_back(
        {.name = "anthropic-version", .value = version.empty() ? "2023-06-01" : version});
  }
  const std::string target =
      upstream::wire::UpstreamTarget(upstream.url().path, upstream.dialect(), "/v1/models");
  const std::string head = upstream::wire::RequestHead({.method = "GET",
                                                        .target = target,
                                                        .host = upstream.host(),
                                                        .fields = fields,
                                                        .api_key = upstream.api_key(),
                                                        .dialect = upstream.dialect(),
                                                        .drop_credential = key_is_credential_});
  upstream::Exchange exchange(upstream, executor());
  exchange.BoundBy(Clock::now() + kListTimeout);
  exchange_ = &exchange;
  ArmTick();
  std::string body;
  Result<void> done = co_await exchange.Start({.head = head, .body = ""});
  while (done && body.size() <= kListBytesMax) {
    Result<std::string> piece = co_await exchange.Read();
    if (!piece) {
      done = piece.error();
    } else if (piece->empty()) {
      break;
    } else {
      body += *piece;
    }
  }
  exchange_ = nullptr;
  if (!done) {
    KVGATE_LOG(kWarning, "http", "the models of '{}': {}", upstream.name(), done.error().detail);
    co_return std::string();
  }
  if (exchange.status() != 200 || !exchange.finished()) body.clear();
  co_return body;
}

}  // namespace kvgate::http
