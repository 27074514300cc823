// Router: which path and method means what, and what it asks of a caller. No handler lives here: a
// route is a name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/http/message/response.h"
#include "gateway/access/access.h"

namespace kvgate::http {

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
  kForwarded,  // no path of ours: FindRoute never yields it
};

// Whether a model answers it, the local one or an upstream's.
inline bool IsGeneration(Route route) {
  return route == Route::kChatCompletions || route == Route::kCompletions ||
         route == Route::kMessages || route == Route::kCountTokens || route == Route::kResponses ||
         route == Route::kInputTokens;
}

// Whether it is about a response or a conversation that somebody keeps, the gateway or an upstream.
inline bool IsKept(Route route) {
  return route >= Route::kResponse && route <= Route::kConversationItemDelete;
}

// Whether it names the model that answers it.
inline bool NamesModel(Route route) {
  return IsGeneration(route) || route == Route::kEmbeddings || route == Route::kPrefixesWarm;
}

struct RouteMatch {
  Route route;
  std::string_view name;  // for metrics: bounded, "/v1/models/{id}"
  std::string argument;   // {id}, percent-decoded
  std::string item = {};  // {item}, likewise
  bool force = false;     // "force=1" in the query
  bool any = false;       // "any=1"
  bool openai_dialect = false;
  service::Access access = service::Access::kAdmin;
};

// A match, or a 404 or 405 (with Allow) in JSON. HEAD is taken as GET.
struct RouteResult {
  std::optional<RouteMatch> match;
  Response refusal;  // where there is no match
};
// `target` as in the request line: an absolute form and a query are understood.
RouteResult FindRoute(std::string_view method, std::string_view target);

// The target as our routes spell it: clients differ in whether a base URL ends in /v1, so that
// theirs may lack it ("/responses") or have it twice. One that fits a route as it is, or none at
// all, stays; a query stays in any case.
std::string CanonicalTarget(std::string_view target);

// The value of a parameter of the query, percent-decoded; empty where it is not there.
std::string QueryValue(std::string_view target, std::string_view name);
// "%2F" is '/'; what is no such escape stays.
std::string PercentDecode(std::string_view text);
// Without scheme, host, query and fragment.
std::string_view PathOf(std::string_view target);

// Whether a path is one of the OpenAI dialect's, matched or not.
bool IsOpenAiPath(std::string_view target);

}  // namespace kvgate::http
