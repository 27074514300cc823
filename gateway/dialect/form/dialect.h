// What a request can be said in: the dialects that are read and written, the endpoints that carry
// them, and the APIs of servers. The only enums of their kind.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvgate::dialect::form {

// The form of a body and of its answer. Each has a room of its own in gateway/dialect.
enum class Dialect : uint8_t { kChatCompletions, kCompletions, kMessages, kResponses, kGemini };

// The API of a server: its paths, how it takes a credential, its list of models.
enum class Api : uint8_t { kOpenAi, kAnthropic, kGemini };
inline constexpr std::string_view ApiName(Api api) {
  if (api == Api::kGemini) return "gemini";
  return api == Api::kAnthropic ? "anthropic" : "openai";
}

// What a path asks for, where that needs a treatment of its own.
enum class Endpoint : uint8_t {
  kChatCompletions,
  kCompletions,
  kResponses,
  kEmbeddings,
  kMessages,
  kCountTokens,
  kModels,
  kOther,
  kGenerateContent,  // Gemini's, whole or streamed; the model and which of the two are in the path
  kCountContent,     // Gemini's count of tokens
};

// True for endpoints whose answer a model writes.
inline constexpr bool IsGeneration(Endpoint endpoint) {
  return endpoint == Endpoint::kChatCompletions || endpoint == Endpoint::kCompletions ||
         endpoint == Endpoint::kResponses || endpoint == Endpoint::kMessages ||
         endpoint == Endpoint::kGenerateContent;
}

// The dialect of an endpoint's bodies; chat completions for endpoints that have none of their own.
inline constexpr Dialect DialectOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kCompletions:
      return Dialect::kCompletions;
    case Endpoint::kMessages:
    case Endpoint::kCountTokens:
      return Dialect::kMessages;
    case Endpoint::kResponses:
      return Dialect::kResponses;
    case Endpoint::kGenerateContent:
    case Endpoint::kCountContent:
      return Dialect::kGemini;
    default:
      return Dialect::kChatCompletions;
  }
}

// The prefix of a stored response's id; the request that made it follows.
inline constexpr std::string_view kResponsePrefix = "resp_kv";

}  // namespace kvgate::dialect::form
