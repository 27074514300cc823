#include "gateway/replay/cache_model.h"

#include <utility>

#include "gateway/replay/anthropic_cache.h"
#include "gateway/replay/openai_cache.h"
#include "gateway/replay/prefix_caches.h"

namespace kvgate::replay {

std::unique_ptr<CacheModel> CacheModel::Make(Options options) {
  const std::string& provider = options.provider;
  if (provider == "anthropic" || provider == "bedrock" || provider == "vertex") {
    return std::make_unique<AnthropicCache>(std::move(options));
  }
  if (provider == "openai" || provider == "azure") {
    return std::make_unique<OpenAiCache>(std::move(options));
  }
  if (provider == "deepseek") return std::make_unique<UnitCache>(std::move(options));
  if (provider == "raw") return std::make_unique<RawCache>(std::move(options));
  return std::make_unique<IncrementCache>(std::move(options));
}

}  // namespace kvgate::replay
