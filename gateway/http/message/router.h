// Router: maps a method and path to a route and to the access that it requires. No handler lives
// here: a route is only a name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/access/access.h"
#include "gateway/http/message/response.h"

namespace kvgate::http::message {

enum class Route : uint8_t {
  kRoot,
  kChatCompletions,
  kCompletions,
  kMessages,
  kCountTokens,
  kResponses,
  kInputTokens,
  kEmbeddings,
  kResponse,
  kResponseDelete,
  kResponseItems,
  kResponseCancel,
  kConversations,
  kConversation,
  kConversationUpdate,
  kConversationDelete,
  kConversationItems,
  kConversationAdd,
  kConversationItem,
  kConversationItemDelete,
  kModels,
  kModel,
  kHealth,
  kReady,
  kMetrics,
  kStats,
  kRequests,
  kRequest,
  kExplain,
  kPrefixes,
  kPrefixesRemoveAll,
  kPrefixRemove,
  kPrefixesVerify,
  kPrefixesWarm,
  kPrefixesImport,
  kPrefixExport,
  kPrefixPin,
  kPrefixUnpin,
  kForwarded,  // not a path of the gateway; FindRoute never returns it
};

// True for routes that a model answers, the local one or an upstream's.
inline bool IsGeneration(Route route) {
  return route == Route::kChatCompletions || route == Route::kCompletions ||
         route == Route::kMessages || route == Route::kCountTokens || route == Route::kResponses ||
         route == Route::kInputTokens;
}

// True for routes of a stored response or conversation, whether the gateway or an upstream keeps
// it.
inline bool IsKept(Route route) {
  return route >= Route::kResponse && route <= Route::kConversationItemDelete;
}

// True for routes whose request names the model that answers it.
inline bool NamesModel(Route route) {
  return IsGeneration(route) || route == Route::kEmbeddings || route == Route::kPrefixesWarm;
}

struct RouteMatch {
  Route route;
  std::string_view name;  // for metrics: bounded, "/v1/models/{id}"
  std::string argument;   // {id}, percent-decoded
  std::string item = {};  // {item}, percent-decoded
  bool force = false;     // "force=1" in the query
  bool any = false;       // "any=1"
  bool openai_dialect = false;
  access::Access access = access::Access::kAdmin;
};

// A match, or a 404 or 405 (with Allow) in JSON. HEAD is treated as GET.
struct RouteResult {
  std::optional<RouteMatch> match;
  Response refusal;  // set if there is no match
};
// `target` is the request line's: it may have the absolute form and a query.
RouteResult FindRoute(std::string_view method, std::string_view target);

// Returns the target as the routes spell it. Clients differ in whether a base URL ends in /v1, so
// theirs may lack it ("/responses") or have it twice. A target that fits a route already, or cannot
// be made to fit one, is returned unchanged; the query is always kept.
std::string CanonicalTarget(std::string_view target);

// The value of a query parameter, percent-decoded; empty if it is missing.
std::string QueryValue(std::string_view target, std::string_view name);
// Decodes "%2F" to '/'; malformed escapes stay as they are.
std::string PercentDecode(std::string_view text);
// The target's path, without scheme, host, query and fragment.
std::string_view PathOf(std::string_view target);

// True if the path belongs to the OpenAI dialect, even if no route matches it.
bool IsOpenAiPath(std::string_view target);

}  // namespace kvgate::http::message
