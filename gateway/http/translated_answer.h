// Translation: one request for an upstream that speaks another dialect than its client, and its
// answer on the way back. It lives as long as the exchange; not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "gateway/http/message/response.h"
#include "gateway/translate/reply_translator.h"
#include "gateway/translate/request_translator.h"
#include "gateway/upstream/wire/content_decoder.h"
#include "gateway/upstream/dialect.h"
#include "gateway/upstream/wire/header_rules.h"
#include "gateway/upstream/upstream.h"

namespace kvgate::http {

// Of an endpoint that has none of its own, chat completions.
protocol::Dialect DialectOf(upstream::Endpoint endpoint);

class Translation final : private upstream::ContentDecoder::Sink {
 public:
  struct Args {
    upstream::Endpoint endpoint = upstream::Endpoint::kOther;  // the client's
    const upstream::Upstream& upstream;
    std::string_view model;
    std::string_view body;             // without its content-encoding
    std::string_view credential = {};  // the caller's own, where it is the provider's; or empty
    protocol::OutputLimit output = {};
  };
  // REQUIRES: the upstream does not take the endpoint, and TranslatedEndpoint has one that it does.
  // Errors as TranslateRequest's.
  static Result<std::unique_ptr<Translation>> Make(const Args& args);

  upstream::Endpoint sent_endpoint() const { return sent_endpoint_; }
  std::string TakeBody() { return std::move(request_.body); }
  std::string_view path() const { return request_.path; }
  // Whether the client wants events.
  bool stream() const { return request_.stream; }
  // What the upstream is not told, and of which conversation.
  const std::vector<std::string>& left_out() const { return request_.left_out; }
  const std::string& opening() const { return request_.opening; }
  // Of the client's headers those that another dialect's provider should see.
  upstream::HeaderFields FieldsOf(const upstream::HeaderFields& fields) const;
  // What that one wants beside them.
  upstream::HeaderFields added() const;
  // … and instead of the upstream's own key, where that is not configured.
  const std::string& credential() const { return credential_; }

  // An answer of 2xx begins.
  void BeginReply(const upstream::HeaderFields& fields, const std::string& request_id);
  // The next bytes as they came; appends what the client gets.
  void Feed(std::string_view bytes, std::string& out);
  translate::ReplyTranslator::End Finish(std::string& out);
  const Error& error() const { return reply_->error(); }

  // An answer with another status, as a whole one.
  Response RefusalOf(int status, const upstream::HeaderFields& fields, std::string_view body,
                     std::string_view request_id) const;

 private:
  explicit Translation(const Args& args);
  void OnDecoded(std::string_view piece) override { decoded_ += piece; }

  const protocol::Dialect from_;  // the client's
  const upstream::Endpoint sent_endpoint_;
  const std::string model_;
  std::string credential_;
  translate::TranslatedRequest request_;
  std::unique_ptr<upstream::ContentDecoder> decoder_;  // null: nothing to take off
  std::string decoded_;
  std::unique_ptr<translate::ReplyTranslator> reply_;
};

}  // namespace kvgate::http
