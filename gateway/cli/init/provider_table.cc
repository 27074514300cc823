#include "gateway/cli/init/provider_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/config/nearest.h"

namespace kvgate::cli::init {
namespace {

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

Result<const Provider*> FindProvider(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Provider& provider : KnownProviders()) {
    if (provider.name == name) return &provider;
    names.push_back(provider.name);
  }
  return MakeError(ErrorCode::kInvalidArgument, "cli",
                   fmt::format("no provider '{}' is known{}; there are {}, or none", name,
                               config::DidYouMean(name, names), fmt::join(names, ", ")));
}

}  // namespace

Result<std::vector<const Provider*>> ParseProviders(std::string_view text) {
  std::vector<const Provider*> providers;
  if (Trimmed(text) == "none") return providers;
  while (true) {
    const size_t comma = text.find(',');
    KVGATE_TRY(const Provider* const provider, FindProvider(Trimmed(text.substr(0, comma))));
    if (std::find(providers.begin(), providers.end(), provider) == providers.end()) {
      providers.push_back(provider);
    }
    if (comma == std::string_view::npos) return providers;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace kvgate::cli::init
