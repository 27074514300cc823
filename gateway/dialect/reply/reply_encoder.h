// ReplyEncoder writes completion events in the client's dialect. The same events make a stream
// (SSE) or one JSON body, as ReplyOptions says.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/reply/reply_choice.h"

namespace kvgate::dialect::reply {

// An SSE comment, which clients ignore.
inline constexpr std::string_view kSsePing = ": ping\n\n";

// The fields that only replies of the Responses dialect have.
struct ResponseShape {
  std::string echo = {};             // members of the request that the response repeats
  bool stored = false;               // it can be fetched by its id
  bool summary = false;              // includes reasoning as its own summary
  bool encrypted_reasoning = false;  // includes reasoning in a form that clients return unread
};

struct ReplyOptions {
  form::Dialect dialect = form::Dialect::kChatCompletions;
  std::string request_id = {};
  int64_t created_unix = 0;
  std::string model = {};
  std::string system_fingerprint = {};
  std::vector<std::string> echo = {};  // text before the answers, one per prompt; completions only
  int num_choices = 1;                 // of all prompts together
  bool stream = false;
  bool include_usage = false;  // for streams; a single body always has it
  bool logprobs = false;
  bool explain = false;       // adds the kvgate object
  int cache_ttl_seconds = 0;  // the longest TTL of the caller's cache breakpoints
  // Reasoning is shown; only the Gemini dialect hides it from callers that do not ask for it.
  bool thoughts = true;
  ResponseShape response = {};
};

// Encodes one reply: OnStart, any number of OnDelta, then OnFinish once. Not thread-safe.
class ReplyEncoder {
 public:
  explicit ReplyEncoder(ReplyOptions options);
  virtual ~ReplyEncoder() = default;

  // Each call appends the bytes that can be sent now; a single body appends none before OnFinish.
  // `usage` holds what is known so far; the cached tokens are often not known yet.
  virtual void OnStart(const form::PromptUsage& usage, std::string& out) = 0;
  virtual void OnDelta(const form::DeltaEvent& event, std::string& out) = 0;
  // In a stream an error becomes its last event, and no [DONE] follows. REQUIRES for a single body:
  // no error (errors have a status and a body of their own: errors.h).
  virtual void OnFinish(const form::FinishEvent& event, std::string& out) = 0;
  // Returns bytes that keep a silent stream alive and reveal a dead one; every client skips them.
  virtual std::string_view ping() const { return kSsePing; }

 protected:
  // Adds a delta to the state of its choice; most streams need no text kept.
  void Keep(const form::DeltaEvent& event);
  // Ends the choices that no delta has ended, and returns their indices.
  std::vector<int> EndOpenChoices(form::FinishReason reason);

  const ReplyOptions options_;
  std::vector<ReplyChoice> choices_;
};

// --- what the dialects share ------------------------------------------------------------------

// Returns "chatcmpl-…", "cmpl-…", "msg_…" or "resp_…": the dialect's prefix and the request's id.
std::string ReplyId(const ReplyOptions& options);
std::string_view FinishReasonName(form::FinishReason reason);
// Appends one SSE event: "data: JSON\n\n". `json` must hold no line break; AppendJsonString escapes
// them.
void AppendSseEvent(std::string_view json, std::string& out);
// Appends "event: NAME\ndata: JSON\n\n".
void AppendNamedSseEvent(std::string_view name, std::string_view json, std::string& out);
// Writes [{"token","logprob","bytes","top_logprobs":[…]}], as both OpenAI dialects with messages
// have it.
void WriteTokenDetails(std::span<const form::TokenDetail> tokens, form::JsonWriter& json);
// Writes {"prompt_tokens":…}.
void WriteUsage(const form::CompletionStats& stats, form::JsonWriter& json);
// Writes the kvgate object of x-kvgate-explain.
void WriteExplain(const form::CompletionStats& stats, std::string_view request_id,
                  form::JsonWriter& json);

}  // namespace kvgate::dialect::reply
