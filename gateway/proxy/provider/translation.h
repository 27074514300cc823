// Translation: one request for an upstream that speaks another dialect than the client, and the
// translation of its answer. It lives as long as the exchange; not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/dialect/form/dialect.h"
#include "gateway/dialect/reply_translator.h"
#include "gateway/dialect/request_translator.h"
#include "gateway/proxy/request/request_context.h"
#include "gateway/upstream/upstream.h"
#include "gateway/upstream/wire/content_decoder.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::proxy::provider {

class Translation final : private upstream::wire::ContentDecoder::Sink {
 public:
  struct Args {
    dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;  // the client's
    const upstream::Upstream& upstream;
    std::string_view model;
    bool stream = false;               // as the path of a Gemini request says
    std::string_view body;             // without its content-encoding
    std::string_view credential = {};  // the caller's own credential for the provider; or empty
    dialect::form::OutputLimit output = {};
  };
  // REQUIRES: the upstream does not serve the endpoint, and TranslatedEndpoint returns one that it
  // does. Fails as TranslateRequest does.
  static Result<std::unique_ptr<Translation>> Make(const Args& args);

  dialect::form::Endpoint sent_endpoint() const { return sent_endpoint_; }
  std::string TakeBody() { return std::move(request_.body); }
  std::string_view path() const { return request_.path; }
  // True if the client wants a stream of events.
  bool stream() const { return request_.stream; }
  // The parts of the request that the upstream's dialect cannot express, and the conversation's
  // identity, by which each is logged once.
  const std::vector<std::string>& left_out() const { return request_.left_out; }
  const std::string& opening() const { return request_.opening; }
  // The client's headers without those that concern only its own dialect.
  upstream::wire::HeaderFields FieldsOf(const upstream::wire::HeaderFields& fields) const;
  // Headers that the upstream's dialect requires in addition.
  upstream::wire::HeaderFields added() const;
  // The caller's own credential, sent if no key is configured for the upstream.
  const std::string& credential() const { return credential_; }

  // Called when an answer with a 2xx status begins.
  void BeginReply(const upstream::wire::HeaderFields& fields, const std::string& request_id);
  // Takes the next bytes as received and appends the translated bytes for the client to `out`.
  void Feed(std::string_view bytes, std::string& out);
  dialect::ReplyTranslator::End Finish(std::string& out);
  const Error& error() const { return reply_->error(); }

  // Translates a whole answer with another status.
  request::Response RefusalOf(int status, const upstream::wire::HeaderFields& fields,
                              std::string_view body, std::string_view request_id) const;

 private:
  explicit Translation(const Args& args);
  void OnDecoded(std::string_view piece) override { decoded_ += piece; }

  const dialect::form::Dialect from_;  // the client's
  const dialect::form::Endpoint sent_endpoint_;
  const std::string model_;
  std::string credential_;
  dialect::TranslatedRequest request_;
  std::unique_ptr<upstream::wire::ContentDecoder> decoder_;  // null: the answer is not encoded
  std::string decoded_;
  std::unique_ptr<dialect::ReplyTranslator> reply_;
};

}  // namespace kvgate::proxy::provider
