// Route: what a request asks for, as its path says. The router finds it (handler/router.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvgate::proxy::request {

enum class Route : uint8_t {
  kRoot,
  kChatCompletions,
  kCompletions,
  kMessages,
  kCountTokens,
  kResponses,
  kInputTokens,
  kCompact,
  kGenerateContent,
  kStreamContent,
  kCountContent,
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
  kAdvice,
  kBudgets,
  kEvents,
  kExplain,
  kTemplates,
  kPrefixes,
  kPrefixesRemoveAll,
  kPrefixRemove,
  kPrefixesVerify,
  kPrefixesWarm,
  kPrefixesImport,
  kPrefixExport,
  kPrefixPin,
  kPrefixUnpin,
  kSessions,
  kSessionsPurge,
  kSession,
  kSessionDelete,
  kSessionFork,
  kSessionExport,
  kSessionCompact,
  kMemoryExtract,
  kSessionUndo,
  kSessionImport,
  kMemory,
  kMemoryPut,
  kMemoryPatch,
  kMemoryClear,
  kMemoryRemove,
  kNamedPrompts,
  kNamedPrompt,
  kPromptVersion,
  kPromptVersionPut,
  kPromptVersionRemove,
  kNamedPromptRemove,
  kDashboardRoot,
  kDashboard,
  kDashboardAsset,
  kForwarded,  // not a path of the gateway; the router never finds it
};

// True for routes of Gemini's API, whose path names the model.
inline bool IsGemini(Route route) {
  return route >= Route::kGenerateContent && route <= Route::kCountContent;
}

// True for routes that a model answers, the local one or an upstream's.
inline bool IsGeneration(Route route) {
  return route == Route::kChatCompletions || route == Route::kCompletions ||
         route == Route::kMessages || route == Route::kCountTokens || route == Route::kResponses ||
         route == Route::kInputTokens || route == Route::kCompact || IsGemini(route);
}

// True for routes of a stored response or conversation, whether the gateway or an upstream keeps
// it.
inline bool IsKept(Route route) {
  return route >= Route::kResponse && route <= Route::kConversationItemDelete;
}

// True for routes about a tenant's sessions.
inline bool IsSession(Route route) {
  return route >= Route::kSessions && route <= Route::kSessionImport;
}

// True for routes about what is kept in memory, of a session if the path names one.
inline bool IsMemory(Route route) {
  return route >= Route::kMemory && route <= Route::kMemoryRemove;
}

// True for routes about the prompts that requests name.
inline bool IsNamedPrompt(Route route) {
  return route >= Route::kNamedPrompts && route <= Route::kNamedPromptRemove;
}

// True for routes whose request names the model that answers it.
inline bool NamesModel(Route route) {
  return IsGeneration(route) || route == Route::kEmbeddings || route == Route::kPrefixesWarm;
}

// A route, and what the path and the query say beside it.
struct RoutePlace {
  Route route = Route::kForwarded;
  std::string_view name = {};  // for metrics: bounded, "/v1/models/{id}"
  std::string argument = {};   // {id}, percent-decoded
  std::string item = {};       // {item}, percent-decoded
  bool force = false;          // "force=1" in the query
  bool any = false;            // "any=1"
  bool openai_dialect = false;

  // True if the body must name the model that answers.
  bool names_model() const { return NamesModel(route); }
  bool argument_is_model() const { return route == Route::kModel || IsGemini(route); }
  // True if a prompt is only counted.
  bool counts_tokens() const {
    return route == Route::kCountTokens || route == Route::kInputTokens ||
           route == Route::kCountContent;
  }
};

}  // namespace kvgate::proxy::request
