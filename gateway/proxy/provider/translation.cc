#include "gateway/proxy/provider/translation.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "gateway/dialect/translate/error_translator.h"
#include "gateway/ledger/prices.h"

namespace kvgate::proxy::provider {

using dialect::form::DialectOf;
using request::Response;
using upstream::wire::FindHeader;

namespace {

using dialect::form::Endpoint;
using upstream::wire::HeaderFields;
using ReplyEnd = dialect::ReplyTranslator::End;

constexpr size_t kErrorBytesMax = size_t{1} << 20;

dialect::translate::TargetTraits TraitsOf(const upstream::Upstream& upstream,
                                          std::string_view model) {
  const ledger::PriceRow* row = ledger::Prices::Builtin().Find(upstream.provider(), model);
  const bool openai = upstream.provider() == "openai";
  return {.breakpoints = openai && row != nullptr && row->rules.breakpoints_max > 0,
          .ttl = upstream.config().cache_ttl,
          .reasoning_content = !openai,
          .plain_names = !openai};
}

// True for headers that concern only one dialect's provider or are set anew for the upstream.
bool IsDialects(std::string_view name) {
  static constexpr std::string_view kNames[] = {"authorization", "x-api-key", "x-goog-api-key",
                                                "content-type",  "accept",    "session_id",
                                                "x-app"};
  static constexpr std::string_view kPrefixes[] = {"anthropic-", "openai-", "x-stainless-",
                                                   "chatgpt-", "x-goog-"};
  const auto begins = [&](std::string_view prefix) {
    return upstream::wire::SameName(name.substr(0, prefix.size()), prefix);
  };
  return std::any_of(
             std::begin(kNames), std::end(kNames),
             [&](std::string_view known) { return upstream::wire::SameName(name, known); }) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes), begins);
}

}  // namespace

Translation::Translation(const Args& args)
    : from_(DialectOf(args.endpoint)),
      sent_endpoint_(*upstream::TranslatedEndpoint(args.endpoint, args.upstream)),
      model_(args.model),
      credential_(args.credential) {}

Result<std::unique_ptr<Translation>> Translation::Make(const Args& args) {
  std::unique_ptr<Translation> made(new Translation(args));
  KVGATE_TRY(made->request_,
             dialect::TranslateRequest({.from = made->from_,
                                        .to = DialectOf(made->sent_endpoint_),
                                        .body = args.body,
                                        .model = args.model,
                                        .stream = args.stream,
                                        .target = TraitsOf(args.upstream, args.model),
                                        .output = args.output}));
  return made;
}

HeaderFields Translation::FieldsOf(const HeaderFields& fields) const {
  HeaderFields kept;
  for (const upstream::wire::HeaderField& field : fields) {
    if (!IsDialects(field.name)) kept.push_back(field);
  }
  return kept;
}

HeaderFields Translation::added() const {
  HeaderFields added = {{.name = "content-type", .value = "application/json"}};
  if (sent_endpoint_ == Endpoint::kMessages) {
    added.push_back({.name = "anthropic-version", .value = "2023-06-01"});
  }
  return added;
}

void Translation::BeginReply(const HeaderFields& fields, const std::string& request_id) {
  const std::string_view type = FindHeader(fields, "content-type");
  decoder_ = upstream::wire::ContentDecoder::For(FindHeader(fields, "content-encoding"));
  reply_ = dialect::ReplyTranslator::Make({.from = DialectOf(sent_endpoint_),
                                           .events = type.starts_with("text/event-stream"),
                                           .reply = {.dialect = from_,
                                                     .request_id = request_id,
                                                     .created_unix = WallClock::NowUnix(),
                                                     .model = model_,
                                                     .stream = request_.stream,
                                                     .include_usage = request_.include_usage,
                                                     .thoughts = request_.thoughts,
                                                     .response = request_.shape},
                                           .tools = request_.tools});
}

void Translation::Feed(std::string_view bytes, std::string& out) {
  if (decoder_ == nullptr) {
    reply_->Feed(bytes, out);
    return;
  }
  decoder_->Feed(bytes, *this);
  reply_->Feed(decoded_, out);
  decoded_.clear();
}

ReplyEnd Translation::Finish(std::string& out) { return reply_->Finish(out); }

Response Translation::RefusalOf(int status, const HeaderFields& fields, std::string_view body,
                                std::string_view request_id) const {
  std::string text(body);
  const std::string_view coding = FindHeader(fields, "content-encoding");
  if (!upstream::wire::IsIdentity(coding)) {
    text = upstream::DecodeBody(coding, body, kErrorBytesMax).value_or("");
  }
  dialect::translate::UpstreamError error = dialect::translate::ReadErrorBody(status, text);
  // A status that is neither success nor error means nothing to a client of another dialect.
  if (status < 400) error.status = 502;
  dialect::translate::TranslatedError told =
      dialect::translate::TranslateError(error, from_, request_id);
  Response response{.status = told.status, .body = std::move(told.body)};
  for (const std::string_view name : {"retry-after", "retry-after-ms", "x-should-retry"}) {
    const std::string_view value = FindHeader(fields, name);
    if (!value.empty()) response.headers.emplace_back(name, value);
  }
  return response;
}

}  // namespace kvgate::proxy::provider
