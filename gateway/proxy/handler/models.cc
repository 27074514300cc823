// The list of models: the local one and those that each upstream reports.
#include <fmt/format.h>
#include <algorithm>

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/proxy/handler/embedding/local_embeddings.h"
#include "gateway/proxy/handler/generation.h"
#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/handler/own_data.h"
#include "gateway/upstream/exchange.h"
#include "gateway/upstream/model_list.h"

namespace kvgate::proxy::handler {

using request::Response;

namespace {

using Clock = SteadyClock;

// A list that takes longer is left out, so that the others are not delayed.
constexpr std::chrono::seconds kListTimeout{5};
constexpr size_t kListBytesMax = size_t{8} << 20;

// Returns true if there is a local model for embeddings and it has loaded.
bool HasLocalEmbeddings(const RequestContext& request) {
  const local::embeddings::PublishedProvider* const local =
      request.environment().options.embeddings;
  return local != nullptr && local->get() != nullptr;
}

// Keeps an exchange within its time, and ends it if the client leaves.
class ExchangeWatcher final : public request::Watcher {
 public:
  explicit ExchangeWatcher(upstream::Exchange& exchange) : exchange_(exchange) {}
  void OnTick(Clock::time_point now) override { exchange_.Tick(now); }
  void OnGone() override { exchange_.Abort(); }
  void OnEnd() override { exchange_.Abort(); }

 private:
  upstream::Exchange& exchange_;
};

std::string HeadFor(const RequestContext& request, const upstream::Upstream& upstream) {
  upstream::wire::HeaderFields fields = {{.name = "Accept", .value = "application/json"},
                                         {.name = "User-Agent", .value = "kvgate"}};
  for (const char* passed : {"authorization", "x-api-key", "x-goog-api-key"}) {
    if (const std::string_view value = request.Header(passed); !value.empty()) {
      fields.push_back({.name = passed, .value = value});
    }
  }
  // Servers that speak both dialects use Anthropic's if this header is present.
  if (upstream.dialect() == dialect::form::Api::kAnthropic) {
    const std::string_view version = request.Header("anthropic-version");
    fields.push_back(
        {.name = "anthropic-version", .value = version.empty() ? "2023-06-01" : version});
  }
  const bool is_gemini = upstream.dialect() == dialect::form::Api::kGemini;
  const std::string target =
      upstream::wire::UpstreamTarget(upstream.url().path, upstream.dialect(),
                                     is_gemini ? "/v1beta/models?pageSize=1000" : "/v1/models");
  // A caller of another API shows its own credential in another header.
  const bool lends_key = upstream.api_key().empty() && upstream.dialect() != request.kind().dialect;
  return upstream::wire::RequestHead(
      {.method = "GET",
       .target = target,
       .host = upstream.host(),
       .fields = fields,
       .api_key = lends_key ? request.caller().provider_credential() : upstream.api_key(),
       .dialect = upstream.dialect(),
       .drop_credential = request.caller().key_is_credential()});
}

// Returns the body of a 200 answer; else an empty string.
Task<std::string> FetchModels(RequestContext& request, upstream::Upstream& upstream) {
  const std::string head = HeadFor(request, upstream);
  upstream::Exchange exchange(upstream, request.sink().executor());
  exchange.BoundBy(Clock::now() + kListTimeout);
  ExchangeWatcher watcher(exchange);
  request.sink().Watch(&watcher);
  Result<std::string> body =
      co_await upstream::Fetch(exchange, {.head = head, .body = ""}, kListBytesMax);
  request.sink().Watch(nullptr);
  if (!body) {
    KVGATE_LOG(kWarning, "proxy", "the models of '{}': {}", upstream.name(), body.error().detail);
    co_return std::string();
  }
  if (exchange.status() != 200 || !exchange.finished()) body->clear();
  co_return std::move(*body);
}

// Does not apply the upstream's globs: the list shows what the provider has, and routing decides
// which upstream is asked.
Task<void> AddModelsOf(RequestContext& request, upstream::Upstream& upstream,
                       std::vector<upstream::ListedModel>& all) {
  upstream::ModelListCache& lists = request.environment().model_lists;
  const std::string key = fmt::format("{} {}", upstream.name(), request.caller().tenant());
  auto models = lists.Find(key, Clock::now());
  if (!models) {
    std::string body = co_await FetchModels(request, upstream);
    models = upstream::ParseModelList(std::move(body), upstream.dialect(), upstream.name());
    if (models) {
      lists.Put(key, *models, Clock::now());
    } else {
      models = lists.FindStale(key);
    }
  }
  if (!models) co_return;
  for (upstream::ListedModel& model : *models) {
    if (request.caller().MayUse(model.id)) all.push_back(std::move(model));
  }
}

Task<void> ListAll(RequestContext& request) {
  const auto& upstreams = request.targets().upstreams->all();
  std::vector<upstream::ListedModel> all;
  const std::string local = request.environment().service.ListModels(
      [&request](std::string_view id) { return request.caller().MayUse(id); });
  if (auto models = upstream::ParseModelList(local, dialect::form::Api::kOpenAi, "kvgate")) {
    all = std::move(*models);
  }
  for (const auto& upstream : upstreams) {
    if (!request.targets().lists_models) break;
    co_await AddModelsOf(request, *upstream, all);
    if (request.sink().is_gone()) co_return;
  }
  Response response{.body = upstream::JoinModelLists(all, request.kind().dialect)};
  co_await request.Reply(std::move(response));
}

class ModelListHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    const auto& upstreams = request.targets().upstreams->all();
    const bool is_openai = request.kind().dialect == dialect::form::Api::kOpenAi;
    if (upstreams.empty() && is_openai) {
      co_await ServeOwnData(request);
      co_return;
    }
    // If there is only one upstream, its list is passed on unchanged, page by page, to callers that
    // may use all of it.
    const access::GatewayKeys::Key* const key = request.caller().key();
    const bool is_alone = upstreams.size() == 1 && !request.environment().service.has_local() &&
                          !HasLocalEmbeddings(request) &&
                          upstreams.front()->dialect() == request.kind().dialect &&
                          (key == nullptr || key->serves_all());
    if (is_alone) {
      RequestRouter router(request);
      co_await router.Forward(/*is_unknown_path=*/false);
      co_return;
    }
    const Result<void> admitted = request::AdmitOwnData(request);
    if (!admitted) {
      Error error = admitted.error();
      co_await request.Refuse(std::move(error));
      co_return;
    }
    co_await ListAll(request);
  }
};

// True if the model is served, and only by servers of another API than Gemini's.
bool IsTranslated(const RequestContext& request, std::string_view model) {
  using dialect::form::Api;
  const auto& all = request.targets().upstreams->all();
  const auto serves = [&](bool gemini) {
    return std::any_of(all.begin(), all.end(), [&](const auto& upstream) {
      return (upstream->dialect() == Api::kGemini) == gemini && upstream->Serves(model);
    });
  };
  return serves(/*gemini=*/false) && !serves(/*gemini=*/true);
}

// True if the servers of other APIs that serve the model list it, or list nothing.
Task<bool> IsListed(RequestContext& request, std::string_view model) {
  std::vector<upstream::ListedModel> all;
  for (const auto& upstream : request.targets().upstreams->all()) {
    if (upstream->dialect() == dialect::form::Api::kGemini || !upstream->Serves(model)) continue;
    co_await AddModelsOf(request, *upstream, all);
  }
  const bool is_there = std::any_of(
      all.begin(), all.end(), [&](const upstream::ListedModel& each) { return each.id == model; });
  co_return all.empty() || is_there;
}

class OneModelHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    const std::string& model = request.place().argument;
    const bool is_local =
        request.environment().service.ServesLocal(model) ||
        (HasLocalEmbeddings(request) && request.environment().options.embeddings->Serves(model));
    const bool is_gemini =
        request.kind().dialect == dialect::form::Api::kGemini && request.caller().MayUse(model);
    bool is_known = is_gemini && is_local;
    if (is_gemini && !is_local && IsTranslated(request, model)) {
      is_known = co_await IsListed(request, model);
    }
    if (is_known) {
      Response response{.body = upstream::GeminiModel(model)};
      co_await request.Reply(std::move(response));
    } else if (!request.targets().upstreams->empty() && !is_local) {
      RequestRouter router(request);
      co_await router.Forward(/*is_unknown_path=*/false);
    } else {
      co_await CountedData().Serve(request);
    }
  }
};

// Who makes a request's embeddings.
enum class Maker : uint8_t {
  kLocal,
  kUpstream,
  kLoading,    // the local model, which is not there yet
  kGenerator,  // the local model that generates text, which makes none
  kNobody,
};

// As for generation, a body that names no model means the local one. REQUIRES: Scan.
Maker MakerOf(RequestContext& request) {
  const bool has_upstreams = !request.targets().upstreams->empty();
  if (has_upstreams && !request.Header("x-kvgate-upstream").empty()) return Maker::kUpstream;
  const bool is_unreadable = request.body().is_encoded() && !request.body().is_decoded();
  if (has_upstreams && is_unreadable) return Maker::kUpstream;
  const local::embeddings::PublishedProvider* const local =
      request.environment().options.embeddings;
  const std::string& model = request.scan().model;
  if (HasLocalEmbeddings(request)) {
    if (!has_upstreams || model.empty() || local->Serves(model)) {
      const bool is_chat =
          !local->Serves(model) && request.environment().service.ServesLocal(model);
      return is_chat ? Maker::kGenerator : Maker::kLocal;
    }
  } else if (local != nullptr && !has_upstreams) {
    return Maker::kLoading;
  }
  if (request.environment().service.ServesLocal(model)) return Maker::kGenerator;
  return has_upstreams ? Maker::kUpstream : Maker::kNobody;
}

Error NoEmbeddingsOf(const std::string& model) {
  return MakeError(ErrorCode::kInvalidArgument, "proxy",
                   fmt::format("The model '{}' generates text and makes no embeddings; "
                               "engine.embedding_model names one that does.",
                               model),
                   "model");
}

class EmbeddingsHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    const Result<void> scanned = co_await request.Scan();
    if (!scanned) {
      Error error = scanned.error();
      co_await request.Refuse(std::move(error));
      co_return;
    }
    const Maker maker = MakerOf(request);
    if (maker == Maker::kLocal) {
      co_await embedding::AnswerLocally(request);
    } else if (maker == Maker::kUpstream) {
      RequestRouter router(request);
      co_await router.Forward(/*is_unknown_path=*/false);
    } else if (maker == Maker::kNobody) {
      co_await ServeOwnData(request);
    } else {
      Error error = maker == Maker::kGenerator
                        ? NoEmbeddingsOf(request.scan().model)
                        : MakeError(ErrorCode::kUnavailable, "proxy",
                                    "The model is still being loaded; try again in a moment.");
      co_await request.Refuse(std::move(error));
    }
  }
};

}  // namespace

const Handler& ModelList() {
  static const ModelListHandler handler;
  return handler;
}

const Handler& OneModel() {
  static const OneModelHandler handler;
  return handler;
}

const Handler& Embeddings() {
  static const EmbeddingsHandler handler;
  return handler;
}

}  // namespace kvgate::proxy::handler
