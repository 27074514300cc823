#include "gateway/proxy/request/request_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/log.h"
#include "gateway/dialect/form/errors.h"
#include "gateway/proxy/request/known_targets.h"
#include "gateway/proxy/request/query.h"

namespace kvgate::proxy::request {
namespace {

bool HasSeveral(const upstream::wire::HeaderFields& fields, std::string_view name) {
  return std::count_if(fields.begin(), fields.end(), [&](const upstream::wire::HeaderField& field) {
           return upstream::wire::SameName(field.name, name);
         }) > 1;
}

// What ScanBody would find in a body that has been read; nullopt where the two may differ, which is
// in names and models that are spelled with escapes.
std::optional<upstream::BodyScan> ScanOf(const prompt::parse::RequestLayout& layout,
                                         std::string_view body) {
  const auto is_plain = [](std::string_view raw) {
    return std::none_of(raw.begin(), raw.end(),
                        [](unsigned char c) { return c < ' ' || c == '\\'; });
  };
  upstream::BodyScan scan;
  scan.readable = true;
  for (const prompt::parse::Parameter& parameter : layout.parameters) {
    if (!is_plain(parameter.name)) return std::nullopt;
    const std::string_view value = parameter.value.In(body);
    if (parameter.name == "model") {
      if (!is_plain(value)) return std::nullopt;
      scan.model = layout.model;
      scan.model_begin = parameter.value.begin;
      scan.model_end = parameter.value.end;
    } else if (parameter.name == "stream") {
      scan.stream = value == "true";
    }
  }
  return upstream::IsUtf8(body) ? std::optional(std::move(scan)) : std::nullopt;
}

// Reads a prompt of which little is new, once for all that follows: what is known of it need not be
// scanned again for its fields. Null for any other body.
service::Prompts::Layout ReadAtOnce(service::Prompts* prompts, dialect::form::Endpoint endpoint,
                                    std::string_view model, RequestBody& body) {
  if (prompts == nullptr || body.is_encoded()) return nullptr;
  if (body.bytes().size() >= work::kLargeBodyBytes) return nullptr;
  service::Prompts::Layout layout = prompts->ReadKnown(endpoint, body.bytes(), model);
  if (layout == nullptr) return nullptr;
  std::optional<upstream::BodyScan> scan = ScanOf(*layout, body.bytes());
  if (!scan) return nullptr;
  body.TakeScan(*std::move(scan));
  return layout;
}

// The credential in a query, where Gemini's API takes one, and the target without it, in which all
// parameters of that name are left out. Both are empty if there is none.
struct QueryKey {
  std::string_view key;
  std::string target;
};
QueryKey QueryKeyOf(std::string_view target) {
  QueryKey found;
  std::string_view query = QueryOf(target);
  if (upstream::KindOf(PathOf(target), false).dialect != dialect::form::Api::kGemini) return found;
  found.target = target.substr(0, target.find('?'));
  char joint = '?';
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (PercentDecode(pair.substr(0, equals)) == "key") {
      if (found.key.empty()) found.key = pair.substr(std::min(equals + 1, pair.size()));
    } else {
      found.target.append(1, std::exchange(joint, '&')).append(pair);
    }
  }
  if (found.key.empty()) found.target.clear();
  return found;
}

// Moves such a key into its header, from which it is read, checked and replaced as any other.
// Returns the target without it; empty if there is none.
std::string MoveQueryKey(RequestHead& head) {
  QueryKey found = QueryKeyOf(head.target);
  const std::string_view name = upstream::wire::CredentialHeader(dialect::form::Api::kGemini);
  if (!found.key.empty() && upstream::wire::FindHeader(head.fields, name).empty()) {
    head.fields.push_back({.name = name, .value = found.key});
  }
  return std::move(found.target);
}

}  // namespace

RequestContext::RequestContext(Environment& environment, ResponseSink& sink, RequestHead head,
                               std::shared_ptr<const Targets> targets, const Caller* caller)
    : environment_(environment),
      sink_(sink),
      target_(MoveQueryKey(head)),
      targets_(TargetsFor(std::move(targets), head.fields)),
      head_(std::move(head)),
      kind_(upstream::KindOf(PathOf(head_.target), !Header("anthropic-version").empty())),
      caller_(caller != nullptr ? *caller
                                : Caller({.targets = targets_,
                                          .admin_token = environment.options.admin_token,
                                          .is_loopback = head_.is_loopback},
                                         head_.fields)),
      work_({.pools = environment.pools,
             .signal = sink.signal(),
             .executor = sink.executor(),
             .is_cancelled = sink.is_cancelled(),
             .tenant = caller_.tenant(),
             .request_id = head_.request_id}),
      body_({.budget = environment.bodies,
             .tenant = caller_.tenant(),
             .encoding = Header("content-encoding"),
             .is_ambiguous = HasSeveral(head_.fields, "content-encoding"),
             .decoded_bytes_max = environment.options.body_bytes_max}) {
  if (!target_.empty()) head_.target = target_;
}

Task<Result<void>> RequestContext::Scan() {
  if (!body_.is_scanned() && !targets_->upstreams->empty()) {
    layout_ = ReadAtOnce(environment_.options.prompts, kind_.endpoint,
                         IsGemini(place_.route) ? place_.argument : std::string(), body_);
  }
  const Result<void> scanned = co_await body_.Scan(work_);
  if (!scanned || kind_.dialect != dialect::form::Api::kGemini) co_return scanned;
  upstream::BodyScan scan = body_.scan();
  if (IsGemini(place_.route)) {
    // The path says what the bodies of other dialects say.
    scan.model = place_.argument;
    scan.model_begin = scan.model_end = 0;
    scan.stream = place_.route == Route::kStreamContent;
  } else if (constexpr std::string_view kNames = "models/"; scan.model.starts_with(kNames)) {
    scan.model.erase(0, kNames.size());  // what is asked for an explicit cache
  }
  body_.TakeScan(std::move(scan));
  co_return scanned;
}

Task<Result<service::Prompts::Known>> RequestContext::Recognize() {
  if (known_) co_return *known_;
  service::Prompts::Known known;
  if (environment_.options.prompts != nullptr && scan().readable) {
    std::function<void()> work = [&] {
      known = environment_.options.prompts->Recognize({.body = body_.text(),
                                                       .layout = layout_,
                                                       .endpoint = kind_.endpoint,
                                                       .model = model(),
                                                       .tenant = caller_.tenant(),
                                                       .fields = head_.fields});
    };
    const Result<void> ran = co_await work_.RunOn(environment_.pools.request, std::move(work));
    if (!ran) co_return ran.error();
  }
  known_ = known;
  layout_ = known.layout;
  co_return known;
}

Result<void> RequestContext::ReplaceBody(std::string body) {
  KVGATE_TRY_VOID(body_.Replace(std::move(body)));
  std::erase_if(head_.fields, [](const upstream::wire::HeaderField& field) {
    return upstream::wire::SameName(field.name, "content-encoding");
  });
  layout_ = nullptr;
  known_.reset();
  return {};
}

Result<void> RequestContext::Admit(std::string_view model) {
  return caller_.Admit(model, body_.is_unreadable() || (place_.names_model() && model.empty()),
                       environment_.options.exchange_log);
}

Task<Result<void>> RequestContext::CheckPrompt(std::string model) {
  const Result<void> admitted = Admit(model);
  if (!admitted) co_return admitted;
  const config::KeyConfig* const key = caller_.key_config();
  const int64_t most = key == nullptr ? 0 : key->prompt_tokens_max;
  if (most > 0) {
    const Result<service::Prompts::Known> known = co_await Recognize();
    if (!known) co_return known.error();
    if (known->num_tokens > most) {
      co_return dialect::form::PromptLimitError(
          dialect::form::DialectOf(kind_.endpoint),
          {.num_tokens = known->num_tokens, .tokens_max = most});
    }
  }
  co_return Result<void>();
}

void NotePrompt(session::log::TurnPrompt prompt, AnswerNotes& notes) {
  notes.prompt_label = prompt.is_none() ? "" : prompt.name + "@" + prompt.version;
  notes.prompt = std::move(prompt);
}

ReplyInfo RequestContext::Info() const {
  std::string_view id_name;
  if (place_.openai_dialect) {
    const bool anthropic = kind_.dialect == dialect::form::Api::kAnthropic;
    id_name = anthropic ? "request-id" : "x-request-id";
  }
  return {.request_id = head_.request_id,
          .dialect_id_name = id_name,
          .left_out = notes_.left_out,
          .compaction = notes_.compaction,
          .prompt = notes_.prompt_label};
}

void RequestContext::Count(int status) {
  const fmt::format_int text(status);
  environment_.service.metrics().requests.With({place_.name, {text.data(), text.size()}}).Add();
  KVGATE_LOG(kDebug, "proxy", "request {}: {} {}", head_.request_id, place_.name, status);
}

Task<bool> RequestContext::Reply(Response response) {
  Count(response.status);
  LogRefusal(head_.request_id, place_.name,
             caller_.key() == nullptr ? "" : std::string_view(caller_.key()->name()), response);
  ToErrorOf(kind_.dialect, head_.request_id, response);
  const bool written = co_await sink_.Send(std::move(response), Info());
  co_return written;
}

Task<bool> RequestContext::Refuse(Error error) {
  Response response = ErrorResponse(error);
  const bool written = co_await Reply(std::move(response));
  co_return written;
}

Result<void> AdmitOwnData(RequestContext& request) {
  const RoutePlace& place = request.place();
  const std::string_view model = place.argument_is_model() ? place.argument : std::string_view();
  return request.caller().Admit(model, /*is_unknown=*/false,
                                request.environment().options.exchange_log);
}

Task<void> GiveUp(RequestContext& request) {
  const ResponseSink& sink = request.sink();
  if (!sink.is_gone()) {
    Error error = MakeError(ErrorCode::kCancelled, "proxy",
                            "The server is stopping; send the request once more.");
    co_await request.Refuse(std::move(error));
    co_return;
  }
  const bool is_cancelled = sink.is_cancelled();
  if (!is_cancelled) request.environment().service.metrics().client_disconnects.Add();
  request.Count(is_cancelled ? 503 : 499);
}

std::string WithModel(std::string_view target, std::string_view model) {
  const std::string_view path = PathOf(target);
  const size_t colon = path.rfind(':');
  const size_t begin = path.rfind("/models/", colon);
  if (colon == std::string_view::npos || begin == std::string_view::npos) {
    return std::string(target);
  }
  std::string renamed(path.substr(0, begin));
  renamed.append("/models/").append(model).append(path.substr(colon));
  const size_t query = target.find('?');
  if (query != std::string_view::npos) renamed.append(target.substr(query));
  return renamed;
}

std::string_view PathOf(std::string_view target) {
  const size_t scheme = target.starts_with('/') ? std::string_view::npos : target.find("://");
  if (scheme != std::string_view::npos && scheme < 8) {
    const size_t slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target.substr(0, std::min(target.find('?'), target.find('#')));
}

}  // namespace kvgate::proxy::request
