// Driver feeds a simulated cache in tests with bodies as texts and times in seconds.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "gateway/replay/cache_model.h"

namespace kvgate::replay {

struct Driver {
  std::unique_ptr<CacheModel> model;
  dialect::form::Endpoint endpoint = dialect::form::Endpoint::kMessages;
  double first_byte_seconds = 0;

  static Driver For(std::string_view provider, dialect::form::Endpoint endpoint) {
    return {.model = CacheModel::Make({.provider = std::string(provider)}), .endpoint = endpoint};
  }

  SimulatedAnswer Ask(double seconds, const std::string& body, std::string_view credential = "me",
                      std::string_view conversation_id = "") {
    return model->Ask({.time_us = static_cast<int64_t>(seconds * 1e6),
                       .first_byte_us = static_cast<int64_t>(first_byte_seconds * 1e6),
                       .credential = credential,
                       .endpoint = endpoint,
                       .body = body,
                       .conversation_id = conversation_id});
  }
};

// Returns `tokens` tokens of four bytes, all of one letter.
inline std::string Words(int tokens, char letter = 'a') {
  return std::string(static_cast<size_t>(tokens) * 4, letter);
}

}  // namespace kvgate::replay
