#include "gateway/proxy/handler/router.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/proxy/handler/own_data.h"
#include "gateway/proxy/request/query.h"
#include "gateway/proxy/request/request_context.h"

namespace kvgate::proxy::handler {

using request::PathOf;
using request::Response;
using request::StatusResponse;

namespace {

using access::Access;

struct Entry {
  std::string_view method;
  std::string_view path;  // "{id}" and, at the end, "{item}" match one segment
  Route route;
  Access access;
  const Handler& (*handler)();
  BodyRule body = BodyRule::kJson;
};

constexpr Entry kEntries[] = {
    {"GET", "/", Route::kRoot, Access::kOpen, OwnData},
    {"POST", "/v1/chat/completions", Route::kChatCompletions, Access::kUser, Generation},
    {"POST", "/v1/completions", Route::kCompletions, Access::kUser, Generation},
    {"POST", "/v1/messages", Route::kMessages, Access::kUser, Generation},
    {"POST", "/v1/messages/count_tokens", Route::kCountTokens, Access::kUser, Generation},
    {"POST", "/v1/responses", Route::kResponses, Access::kOwn, Generation},
    {"POST", "/v1/responses/input_tokens", Route::kInputTokens, Access::kOwn, Generation},
    {"POST", "/v1/responses/compact", Route::kCompact, Access::kOwn, Generation},
    {"POST", "/v1beta/models/{id}:generateContent", Route::kGenerateContent, Access::kUser,
     Generation},
    {"POST", "/v1beta/models/{id}:streamGenerateContent", Route::kStreamContent, Access::kUser,
     Generation},
    {"POST", "/v1beta/models/{id}:countTokens", Route::kCountContent, Access::kUser, Generation},
    {"POST", "/v1/models/{id}:generateContent", Route::kGenerateContent, Access::kUser, Generation},
    {"POST", "/v1/models/{id}:streamGenerateContent", Route::kStreamContent, Access::kUser,
     Generation},
    {"POST", "/v1/models/{id}:countTokens", Route::kCountContent, Access::kUser, Generation},
    {"POST", "/v1/embeddings", Route::kEmbeddings, Access::kUser, Embeddings},
    {"GET", "/v1/responses/{id}/input_items", Route::kResponseItems, Access::kOwn, StoredData},
    {"POST", "/v1/responses/{id}/cancel", Route::kResponseCancel, Access::kOwn, StoredData,
     BodyRule::kNone},
    {"GET", "/v1/responses/{id}", Route::kResponse, Access::kOwn, StoredData},
    {"DELETE", "/v1/responses/{id}", Route::kResponseDelete, Access::kOwn, StoredData},
    {"POST", "/v1/conversations", Route::kConversations, Access::kOwn, StoredData},
    {"GET", "/v1/conversations/{id}/items", Route::kConversationItems, Access::kOwn, StoredData},
    {"POST", "/v1/conversations/{id}/items", Route::kConversationAdd, Access::kOwn, StoredData},
    {"GET", "/v1/conversations/{id}/items/{item}", Route::kConversationItem, Access::kOwn,
     StoredData},
    {"DELETE", "/v1/conversations/{id}/items/{item}", Route::kConversationItemDelete, Access::kOwn,
     StoredData},
    {"GET", "/v1/conversations/{id}", Route::kConversation, Access::kOwn, StoredData},
    {"POST", "/v1/conversations/{id}", Route::kConversationUpdate, Access::kOwn, StoredData},
    {"DELETE", "/v1/conversations/{id}", Route::kConversationDelete, Access::kOwn, StoredData},
    {"GET", "/v1/models", Route::kModels, Access::kUser, ModelList},
    {"GET", "/v1/models/{id}", Route::kModel, Access::kUser, OneModel},
    {"GET", "/v1beta/models", Route::kModels, Access::kUser, ModelList},
    {"GET", "/v1beta/models/{id}", Route::kModel, Access::kUser, OneModel},
    {"GET", "/health", Route::kHealth, Access::kOpen, OwnData},
    {"GET", "/ready", Route::kReady, Access::kOpen, OwnData},
    {"GET", "/metrics", Route::kMetrics, Access::kMetrics, OwnData},
    {"GET", "/kvgate/v1/stats", Route::kStats, Access::kOwn, OwnData},
    {"GET", "/kvgate/v1/requests", Route::kRequests, Access::kOwn, OwnData},
    {"GET", "/kvgate/v1/requests/{id}", Route::kRequest, Access::kOwn, OwnData},
    {"GET", "/kvgate/v1/advice", Route::kAdvice, Access::kOwn, OwnData},
    {"GET", "/kvgate/v1/budgets", Route::kBudgets, Access::kOwn, OwnData},
    {"GET", "/kvgate/v1/events", Route::kEvents, Access::kOwn, Events},
    {"POST", "/kvgate/v1/explain", Route::kExplain, Access::kUser, Explanation},
    {"GET", "/kvgate/v1/templates", Route::kTemplates, Access::kOwn, OwnData},
    {"GET", "/kvgate/v1/prefixes", Route::kPrefixes, Access::kOwn, OwnData},
    {"DELETE", "/kvgate/v1/prefixes", Route::kPrefixesRemoveAll, Access::kAdmin, OwnData},
    {"POST", "/kvgate/v1/prefixes/verify", Route::kPrefixesVerify, Access::kAdmin, OwnData},
    {"POST", "/kvgate/v1/prefixes/warm", Route::kPrefixesWarm, Access::kUser, WarmPrefix},
    {"POST", "/kvgate/v1/prefixes/import", Route::kPrefixesImport, Access::kAdmin, ImportPrefix,
     BodyRule::kPieces},
    {"GET", "/kvgate/v1/prefixes/{id}/export", Route::kPrefixExport, Access::kOwn, ExportPrefix},
    {"POST", "/kvgate/v1/prefixes/{id}/pin", Route::kPrefixPin, Access::kOwn, CountedData},
    {"DELETE", "/kvgate/v1/prefixes/{id}/pin", Route::kPrefixUnpin, Access::kOwn, CountedData},
    {"DELETE", "/kvgate/v1/prefixes/{id}", Route::kPrefixRemove, Access::kOwn, OwnData},
    {"GET", "/kvgate/v1/sessions", Route::kSessions, Access::kOwn, OwnData},
    {"POST", "/kvgate/v1/sessions", Route::kSessionImport, Access::kOwn, CountedData},
    {"DELETE", "/kvgate/v1/sessions", Route::kSessionsPurge, Access::kOwn, OwnData},
    {"POST", "/kvgate/v1/sessions/{id}/fork", Route::kSessionFork, Access::kOwn, CountedData},
    {"POST", "/kvgate/v1/sessions/{id}/compact", Route::kSessionCompact, Access::kOwn,
     CompactSession, BodyRule::kNone},
    {"POST", "/kvgate/v1/sessions/{id}/undo", Route::kSessionUndo, Access::kOwn, CountedData,
     BodyRule::kNone},
    {"GET", "/kvgate/v1/sessions/{id}/export", Route::kSessionExport, Access::kOwn, OwnData},
    {"POST", "/kvgate/v1/sessions/{id}/memory/extract", Route::kMemoryExtract, Access::kOwn,
     extraction::ExtractMemory},
    {"GET", "/kvgate/v1/sessions/{id}/memory", Route::kMemory, Access::kOwn, OwnData},
    {"PUT", "/kvgate/v1/sessions/{id}/memory", Route::kMemoryPut, Access::kOwn, CountedData},
    {"PATCH", "/kvgate/v1/sessions/{id}/memory", Route::kMemoryPatch, Access::kOwn, CountedData},
    {"DELETE", "/kvgate/v1/sessions/{id}/memory", Route::kMemoryClear, Access::kOwn, OwnData},
    {"DELETE", "/kvgate/v1/sessions/{id}/memory/{item}", Route::kMemoryRemove, Access::kOwn,
     OwnData},
    {"GET", "/kvgate/v1/memory", Route::kMemory, Access::kOwn, OwnData},
    {"PUT", "/kvgate/v1/memory", Route::kMemoryPut, Access::kOwn, CountedData},
    {"PATCH", "/kvgate/v1/memory", Route::kMemoryPatch, Access::kOwn, CountedData},
    {"DELETE", "/kvgate/v1/memory", Route::kMemoryClear, Access::kOwn, OwnData},
    {"DELETE", "/kvgate/v1/memory/{item}", Route::kMemoryRemove, Access::kOwn, OwnData},
    {"GET", "/kvgate/v1/sessions/{id}", Route::kSession, Access::kOwn, OwnData},
    {"DELETE", "/kvgate/v1/sessions/{id}", Route::kSessionDelete, Access::kOwn, OwnData},
    {"GET", "/kvgate/v1/prompts", Route::kNamedPrompts, Access::kUser, OwnData},
    {"GET", "/kvgate/v1/prompts/{id}", Route::kNamedPrompt, Access::kUser, OwnData},
    {"GET", "/kvgate/v1/prompts/{id}/{item}", Route::kPromptVersion, Access::kUser, OwnData},
    {"PUT", "/kvgate/v1/prompts/{id}/{item}", Route::kPromptVersionPut, Access::kAdmin, OwnData},
    {"DELETE", "/kvgate/v1/prompts/{id}/{item}", Route::kPromptVersionRemove, Access::kAdmin,
     OwnData},
    {"DELETE", "/kvgate/v1/prompts/{id}", Route::kNamedPromptRemove, Access::kAdmin, OwnData},
    {"GET", "/dashboard", Route::kDashboardRoot, Access::kOpen, OwnData},
    {"GET", "/dashboard/", Route::kDashboard, Access::kOpen, OwnData},
    {"GET", "/dashboard/assets/{id}", Route::kDashboardAsset, Access::kOpen, OwnData},
};

struct Arguments {
  std::string id = {};
  std::string item = {};
};

bool IsDoneWithModel(std::string_view path) {
  const dialect::form::Endpoint endpoint = upstream::KindOf(path, false).endpoint;
  return endpoint == dialect::form::Endpoint::kGenerateContent ||
         endpoint == dialect::form::Endpoint::kCountContent;
}

// Returns the arguments if the path fits the pattern. Only model names may contain slashes.
std::optional<Arguments> Fits(const Entry& entry, std::string_view path) {
  std::string_view pattern = entry.path;
  constexpr std::string_view kItem = "{item}";
  Arguments arguments;
  if (pattern.ends_with(kItem)) {
    const size_t begin = path.rfind('/') + 1;
    if (begin == path.size()) return std::nullopt;
    arguments.item = request::PercentDecode(path.substr(begin));
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
  arguments.id = request::PercentDecode(path.substr(hole, path.size() - hole - behind.size()));
  // A slash spelled "%2F" is refused too, because an upstream may take it for another path.
  const auto has_slash = [](std::string_view text) {
    return text.find('/') != std::string_view::npos;
  };
  const bool names_model = entry.route == Route::kModel || request::IsGemini(entry.route);
  // What stands behind a colon is done with a model, and is no part of its name.
  if (entry.route == Route::kModel && IsDoneWithModel(path)) return std::nullopt;
  if (has_slash(arguments.item) || (!names_model && has_slash(arguments.id))) return std::nullopt;
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

}  // namespace

bool IsProvidersPath(std::string_view target) {
  const std::string_view path = PathOf(target);
  return path.starts_with("/v1/") || path.starts_with("/v1beta/");
}

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
      return {.match = RouteMatch{.place = {.route = entry.route,
                                            .name = entry.path,
                                            .argument = std::move(arguments->id),
                                            .item = std::move(arguments->item),
                                            .force = request::QueryOf(target) == "force=1",
                                            .any = request::QueryOf(target) == "any=1",
                                            .openai_dialect = path.starts_with("/v1/")},
                                  .access = entry.access,
                                  .body = entry.body,
                                  .handler = &entry.handler()},
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

RouteMatch UnknownRoute() {
  return {.place = {.route = Route::kForwarded, .name = "/v1/{other}", .openai_dialect = true},
          .access = Access::kUser,
          .handler = &UnknownPath()};
}

}  // namespace kvgate::proxy::handler
