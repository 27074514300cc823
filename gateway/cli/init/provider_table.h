// The providers that `kvgate init` offers, as data. Only those stand here whose base URL is sure:
// others are an [[upstream]] that people write themselves. Pure, immutable.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvgate::cli::init {

struct Provider {
  std::string_view name = {};  // of the upstream, too
  std::string_view title = {};
  std::string_view dialect = {};
  std::string_view base_url = {};
  std::vector<std::string_view> models = {};
  std::string_view key_env = {};  // the variable that the provider's own SDKs read
};

std::span<const Provider> KnownProviders();

// The providers of a list like "anthropic,openai", each once, in its order; "none" is an empty one.
// Fails with kInvalidArgument for an empty text or an unknown name.
Result<std::vector<const Provider*>> ParseProviders(std::string_view text);

}  // namespace kvgate::cli::init
