#include "gateway/http/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace kvgate::http {
namespace {

struct Entry {
  std::string_view method;
  std::string_view path;  // "{id}" takes what stands between; at the end the rest, with slashes;
                          // behind it, at the end, "{item}"
  Route route;
};

constexpr Entry kEntries[] = {
    {"GET", "/", Route::kRoot},
    {"POST", "/v1/chat/completions", Route::kChatCompletions},
    {"POST", "/v1/completions", Route::kCompletions},
    {"POST", "/v1/messages", Route::kMessages},
    {"POST", "/v1/messages/count_tokens", Route::kCountTokens},
    {"POST", "/v1/responses", Route::kResponses},
    {"POST", "/v1/responses/input_tokens", Route::kInputTokens},
    {"GET", "/v1/responses/{id}/input_items", Route::kResponseItems},
    {"POST", "/v1/responses/{id}/cancel", Route::kResponseCancel},
    {"GET", "/v1/responses/{id}", Route::kResponse},
    {"DELETE", "/v1/responses/{id}", Route::kResponseDelete},
    {"POST", "/v1/conversations", Route::kConversations},
    {"GET", "/v1/conversations/{id}/items", Route::kConversationItems},
    {"POST", "/v1/conversations/{id}/items", Route::kConversationAdd},
    {"GET", "/v1/conversations/{id}/items/{item}", Route::kConversationItem},
    {"DELETE", "/v1/conversations/{id}/items/{item}", Route::kConversationItemDelete},
    {"GET", "/v1/conversations/{id}", Route::kConversation},
    {"POST", "/v1/conversations/{id}", Route::kConversationUpdate},
    {"DELETE", "/v1/conversations/{id}", Route::kConversationDelete},
    {"GET", "/v1/models", Route::kModels},
    {"GET", "/v1/models/{id}", Route::kModel},
    {"GET", "/health", Route::kHealth},
    {"GET", "/ready", Route::kReady},
    {"GET", "/metrics", Route::kMetrics},
    {"GET", "/kvgate/v1/stats", Route::kStats},
    {"GET", "/kvgate/v1/requests", Route::kRequests},
    {"GET", "/kvgate/v1/requests/{id}", Route::kRequest},
    {"POST", "/kvgate/v1/explain", Route::kExplain},
    {"GET", "/kvgate/v1/prefixes", Route::kPrefixes},
    {"DELETE", "/kvgate/v1/prefixes", Route::kPrefixesRemoveAll},
    {"POST", "/kvgate/v1/prefixes/verify", Route::kPrefixesVerify},
    {"POST", "/kvgate/v1/prefixes/warm", Route::kPrefixesWarm},
    {"POST", "/kvgate/v1/prefixes/import", Route::kPrefixesImport},
    {"GET", "/kvgate/v1/prefixes/{id}/export", Route::kPrefixExport},
    {"POST", "/kvgate/v1/prefixes/{id}/pin", Route::kPrefixPin},
    {"DELETE", "/kvgate/v1/prefixes/{id}/pin", Route::kPrefixUnpin},
    {"DELETE", "/kvgate/v1/prefixes/{id}", Route::kPrefixRemove},
};

struct Arguments {
  std::string id = {};
  std::string item = {};
};

// The arguments where the path fits the pattern.
std::optional<Arguments> Fits(std::string_view pattern, std::string_view path) {
  constexpr std::string_view kItem = "{item}";
  Arguments arguments;
  if (pattern.ends_with(kItem)) {
    const size_t begin = path.rfind('/') + 1;
    if (begin == path.size()) return std::nullopt;
    arguments.item = PercentDecode(path.substr(begin));
    pattern.remove_suffix(kItem.size());
    path = path.substr(0, begin);
  }
  const size_t hole = pattern.find("{id}");
  if (hole == std::string_view::npos) {
    return path == pattern ? std::optional(arguments) : std::nullopt;
  }
  const std::string_view behind = pattern.substr(hole + 4);
  if (!path.starts_with(pattern.substr(0, hole)) || !path.ends_with(behind) ||
      path.size() <= hole + behind.size()) {
    return std::nullopt;
  }
  const std::string_view id = path.substr(hole, path.size() - hole - behind.size());
  if (!behind.empty() && id.find('/') != std::string_view::npos) return std::nullopt;
  arguments.id = PercentDecode(id);
  return arguments;
}

std::string_view QueryOf(std::string_view target) {
  const size_t question = target.find('?');
  if (question == std::string_view::npos) return {};
  return target.substr(question + 1, target.find('#', question) - question - 1);
}

}  // namespace

std::string PercentDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr ==
            text.data() + i + 3) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string QueryValue(std::string_view target, std::string_view name) {
  std::string_view query = QueryOf(target);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    const size_t equals = pair.find('=');
    if (pair.substr(0, equals) == name) {
      return equals == std::string_view::npos ? "" : PercentDecode(pair.substr(equals + 1));
    }
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
  }
  return "";
}

std::string_view PathOf(std::string_view target) {
  const size_t scheme = target.starts_with('/') ? std::string_view::npos : target.find("://");
  if (scheme != std::string_view::npos && scheme < 8) {
    const size_t slash = target.find('/', scheme + 3);
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target.substr(0, std::min(target.find('?'), target.find('#')));
}

bool IsOpenAiPath(std::string_view target) { return PathOf(target).starts_with("/v1/"); }

RouteResult FindRoute(std::string_view method, std::string_view target) {
  const std::string_view path = PathOf(target);
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  std::string allowed;
  for (const Entry& entry : kEntries) {
    std::optional<Arguments> arguments = Fits(entry.path, path);
    if (!arguments) continue;
    if (entry.method == wanted) {
      return {.match = RouteMatch{.route = entry.route,
                                  .name = entry.path,
                                  .argument = std::move(arguments->id),
                                  .item = std::move(arguments->item),
                                  .force = QueryOf(target) == "force=1",
                                  .openai_dialect = path.starts_with("/v1/")},
              .refusal = {}};
    }
    if (allowed.find(entry.method) != std::string::npos) continue;
    if (!allowed.empty()) allowed += ", ";
    allowed += entry.method;
    if (entry.method == "GET") allowed += ", HEAD";
  }
  if (!allowed.empty()) {
    Response refusal = StatusResponse(
        405, fmt::format("{} is not allowed on {}; allowed: {}.", method, path, allowed));
    refusal.headers.emplace_back("allow", allowed);
    return {.match = std::nullopt, .refusal = std::move(refusal)};
  }
  return {.match = std::nullopt,
          .refusal = StatusResponse(404, fmt::format("There is no {} here.", path))};
}

}  // namespace kvgate::http
