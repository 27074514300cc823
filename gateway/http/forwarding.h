// Forwarding: one forwarded request. Lives in ForwardTo's frame.
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
  upstream::HeaderFields fields;           // of the request
  upstream::Upstream* upstream = nullptr;  // null: none was chosen
  std::unique_ptr<upstream::Exchange> exchange = nullptr;
  std::shared_ptr<ExchangeAccount> account = nullptr;  // null: nobody keeps accounts
  std::shared_ptr<const std::string> body = nullptr;   // a large one, until nobody needs it
  service::Prompts::Prompt prompt = {};                // what was made of it
  std::shared_ptr<const std::string> sent = nullptr;   // instead of what was received
  // The body with the model that its target has, or in its dialect; empty: as received.
  std::string renamed = {};
  bool is_renamed = false;  // … so that it goes without its content-encoding
  std::unique_ptr<Translation> translation = nullptr;  // null: the upstream speaks the client's
  upstream::ExchangeEnd end = {};
  ForwardArgs args = {};
  // The answer's head, without the operator's key where the upstream repeats it.
  upstream::HeaderFields answer_fields = {};
  std::deque<std::string> masked_values = {};  // what they show of it

  // Of the key that this gateway has added; empty: none.
  upstream::SecretMask Mask() const {
    return upstream::SecretMask(upstream == nullptr ? std::string_view() : upstream->api_key());
  }
};

}  // namespace kvgate::http
