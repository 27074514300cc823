// Forwarding: the state of one forwarded request. Lives in ForwardTo's frame.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "gateway/http/connection.h"
#include "gateway/http/exchange_account.h"
#include "gateway/http/translated_answer.h"
#include "gateway/service/prompts.h"
#include "gateway/upstream/exchange.h"
#include "gateway/upstream/exchange_observer.h"
#include "gateway/upstream/secret_mask.h"

namespace kvgate::http {

struct Connection::Forwarding {
  std::string route;  // for metrics
  std::string model;
  upstream::wire::HeaderFields fields;     // the request's headers
  upstream::Upstream* upstream = nullptr;  // null: none was chosen
  std::unique_ptr<upstream::Exchange> exchange = nullptr;
  std::shared_ptr<ExchangeAccount> account = nullptr;  // null: no accounting
  // A large body, shared until it is sent and hashed; null for a small one.
  std::shared_ptr<const std::string> body = nullptr;
  service::Prompts::Prompt prompt = {};  // the prepared prompt
  // Sent instead of the received body; may be null.
  std::shared_ptr<const std::string> sent = nullptr;
  // The body with the target's model name or in the target's dialect; empty: as received.
  std::string renamed = {};
  bool is_renamed = false;  // the body differs, so its content-encoding is dropped
  std::unique_ptr<Translation> translation = nullptr;  // null: not translated
  upstream::ExchangeEnd end = {};
  ForwardArgs args = {};
  // The answer's headers; the operator's key is masked if the upstream repeats it.
  upstream::wire::HeaderFields answer_fields = {};
  std::deque<std::string> masked_values = {};  // owns the masked values among them

  // A mask for the operator's key; empty if none was added.
  upstream::SecretMask Mask() const {
    return upstream::SecretMask(upstream == nullptr ? std::string_view() : upstream->api_key());
  }
};

}  // namespace kvgate::http
