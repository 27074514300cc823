#include "gateway/http/message/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace kvgate::http::message {
namespace {

using access::Access;

struct Entry {
  std::string_view method;
  std::string_view path;  // "{id}" and, at the end, "{item}" match one segment
  Route route;
  Access access;
};

constexpr Entry kEntries[] = {
    {"GET", "/", Route::kRoot, Access::kOpen},
    {"POST", "/v1/chat/completions", Route::kChatCompletions, Access::kUser},
    {"POST", "/v1/completions", Route::kCompletions, Access::kUser},
    {"POST", "/v1/messages", Route::kMessages, Access::kUser},
    {"POST", "/v1/messages/count_tokens", Route::kCountTokens, Access::kUser},
    {"POST", "/v1/responses", Route::kResponses, Access::kOwn},
    {"POST", "/v1/responses/input_tokens", Route::kInputTokens, Access::kOwn},
    {"POST", "/v1/embeddings", Route::kEmbeddings, Access::kUser},
    {"GET", "/v1/responses/{id}/input_items", Route::kResponseItems, Access::kOwn},
    {"POST", "/v1/responses/{id}/cancel", Route::kResponseCancel, Access::kOwn},
    {"GET", "/v1/responses/{id}", Route::kResponse, Access::kOwn},
    {"DELETE", "/v1/responses/{id}", Route::kResponseDelete, Access::kOwn},
    {"POST", "/v1/conversations", Route::kConversations, Access::kOwn},
    {"GET", "/v1/conversations/{id}/items", Route::kConversationItems, Access::kOwn},
    {"POST", "/v1/conversations/{id}/items", Route::kConversationAdd, Access::kOwn},
    {"GET", "/v1/conversations/{id}/items/{item}", Route::kConversationItem, Access::kOwn},
    {"DELETE", "/v1/conversations/{id}/items/{item}", Route::kConversationItemDelete, Access::kOwn},
    {"GET", "/v1/conversations/{id}", Route::kConversation, Access::kOwn},
    {"POST", "/v1/conversations/{id}", Route::kConversationUpdate, Access::kOwn},
    {"DELETE", "/v1/conversations/{id}", Route::kConversationDelete, Access::kOwn},
    {"GET", "/v1/models", Route::kModels, Access::kUser},
    {"GET", "/v1/models/{id}", Route::kModel, Access::kUser},
    {"GET", "/health", Route::kHealth, Access::kOpen},
    {"GET", "/ready", Route::kReady, Access::kOpen},
    {"GET", "/metrics", Route::kMetrics, Access::kMetrics},
    {"GET", "/kvgate/v1/stats", Route::kStats, Access::kOwn},
    {"GET", "/kvgate/v1/requests", Route::kRequests, Access::kOwn},
    {"GET", "/kvgate/v1/requests/{id}", Route::kRequest, Access::kOwn},
    {"POST", "/kvgate/v1/explain", Route::kExplain, Access::kUser},
    {"GET", "/kvgate/v1/prefixes", Route::kPrefixes, Access::kOwn},
    {"DELETE", "/kvgate/v1/prefixes", Route::kPrefixesRemoveAll, Access::kAdmin},
    {"POST", "/kvgate/v1/prefixes/verify", Route::kPrefixesVerify, Access::kAdmin},
    {"POST", "/kvgate/v1/prefixes/warm", Route::kPrefixesWarm, Access::kUser},
    {"POST", "/kvgate/v1/prefixes/import", Route::kPrefixesImport, Access::kAdmin},
    {"GET", "/kvgate/v1/prefixes/{id}/export", Route::kPrefixExport, Access::kOwn},
    {"POST", "/kvgate/v1/prefixes/{id}/pin", Route::kPrefixPin, Access::kOwn},
    {"DELETE", "/kvgate/v1/prefixes/{id}/pin", Route::kPrefixUnpin, Access::kOwn},
    {"DELETE", "/kvgate/v1/prefixes/{id}", Route::kPrefixRemove, Access::kOwn},
};

struct Arguments {
  std::string id = {};
  std::string item = {};
};

// Returns the arguments if the path fits the pattern. Only model names may contain slashes.
std::optional<Arguments> Fits(const Entry& entry, std::string_view path) {
  std::string_view pattern = entry.path;
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
  arguments.id = PercentDecode(path.substr(hole, path.size() - hole - behind.size()));
  // A slash spelled "%2F" is refused too, because an upstream may take it for another path.
  const auto has_slash = [](std::string_view text) {
    return text.find('/') != std::string_view::npos;
  };
  if (has_slash(arguments.item) || (entry.route != Route::kModel && has_slash(arguments.id)))
    return std::nullopt;
  return arguments;
}

constexpr std::string_view kVersion = "/v1";

bool IsKnown(std::string_view path) {
  return std::any_of(std::begin(kEntries), std::end(kEntries),
                     [&](const Entry& entry) { return Fits(entry, path).has_value(); });
}

// The gateway's path that an unknown one ends with; empty if there is none.
std::string_view MeantBy(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  std::string_view meant;
  for (const Entry& entry : kEntries) {
    if (!entry.path.starts_with("/v1/") || entry.path.find('{') != std::string_view::npos) continue;
    if (!path.ends_with(entry.path.substr(kVersion.size()))) continue;
    if (entry.path.size() > meant.size()) meant = entry.path;
  }
  return meant;
}

Response NotFound(std::string_view path) {
  std::string message = fmt::format("There is no {} here.", path);
  if (const std::string_view meant = MeantBy(path); !meant.empty()) {
    message += fmt::format(
        " {} is what is meant, if a base URL was set wrongly: it is this server's address, with or "
        "without /v1, and nothing behind that.",
        meant);
  }
  return StatusResponse(404, message);
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

std::string CanonicalTarget(std::string_view target) {
  const std::string_view path = PathOf(target);
  if (IsKnown(path)) return std::string(target);
  std::string_view rest = path;
  while (rest.starts_with("/v1/")) rest.remove_prefix(kVersion.size());
  std::string found = std::string(kVersion).append(rest);
  if (!IsKnown(found)) found = rest;
  if (!found.starts_with("/v1/") && !found.starts_with("/kvgate/")) return std::string(target);
  if (!IsKnown(found)) return std::string(target);
  return found.append(target.substr(std::min(target.find('?'), target.size())));
}

RouteResult FindRoute(std::string_view method, std::string_view target) {
  const std::string_view path = PathOf(target);
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  std::string allowed;
  for (const Entry& entry : kEntries) {
    std::optional<Arguments> arguments = Fits(entry, path);
    if (!arguments) continue;
    if (entry.method == wanted) {
      return {.match = RouteMatch{.route = entry.route,
                                  .name = entry.path,
                                  .argument = std::move(arguments->id),
                                  .item = std::move(arguments->item),
                                  .force = QueryOf(target) == "force=1",
                                  .any = QueryOf(target) == "any=1",
                                  .openai_dialect = path.starts_with("/v1/"),
                                  .access = entry.access},
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
  return {.match = std::nullopt, .refusal = NotFound(path)};
}

}  // namespace kvgate::http::message
