// What is said to Gemini about a cache that it keeps under a name ("cachedContents/ID"): the bodies
// that make and prolong one, and its answer. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvgate::dialect::gemini {

// The path under which caches are made; a cache has its name behind "/v1beta/".
inline constexpr std::string_view kCachedContentsPath = "/v1beta/cachedContents";

// What a cache is to hold: JSON as the request has it; empty: absent.
struct CachedParts {
  std::string_view system_instruction;
  std::string_view tools;
  std::string_view tool_config;
};
// `model` is the name in the path of the request, without "models/".
std::string MakeCachedContent(const CachedParts& parts, std::string_view model,
                              int64_t ttl_seconds);

// The path, query included, and the body that make a cache live for so long from now on. `name` is
// as Gemini gave it.
std::string ProlongedPath(std::string_view name);
std::string ProlongedBody(int64_t ttl_seconds);

struct CachedContent {
  std::string name;
  int64_t num_tokens = 0;  // 0: not said, or not believed
};
// Reads the answer to either. Fails with kUnavailable if it names no cache, or one whose name could
// not stand in a path.
Result<CachedContent> ReadCachedContent(std::string_view body);

}  // namespace kvgate::dialect::gemini
