// The choice of providers that `kvgate init` offers, of those that the gateway knows; others are an
// [[upstream]] that people write themselves. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/upstream/known_providers.h"

namespace kvgate::cli::init {

using Provider = upstream::KnownProvider;
using upstream::KnownProviders;

// The providers of a list like "anthropic,openai", each once, in its order; "none" is an empty one.
// Fails with kInvalidArgument for an empty text or an unknown name.
Result<std::vector<const Provider*>> ParseProviders(std::string_view text);

}  // namespace kvgate::cli::init
