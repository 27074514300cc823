// ReplyEncoder: completion events as bytes of the client's dialect. The same events make a stream
// (SSE) or one JSON body; ReplyOptions says which.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/json_writer.h"
#include "gateway/protocol/reply_choice.h"

namespace kvgate::protocol {

// A comment.
inline constexpr std::string_view kSsePing = ": ping\n\n";

// What only a reply of the Responses dialect shows.
struct ResponseShape {
  std::string echo = {};             // what it repeats of its request: members of an object
  bool stored = false;               // it can be asked for by its id
  bool summary = false;              // reasoning is told as its summary, too
  bool encrypted_reasoning = false;  // … and in a form that the client sends back unread
};

struct ReplyOptions {
  Dialect dialect = Dialect::kChatCompletions;
  std::string request_id = {};
  int64_t created_unix = 0;
  std::string model = {};
  std::string system_fingerprint = {};
  std::vector<std::string> echo = {};  // text before the answers, one a prompt; completions only
  int num_choices = 1;                 // of all prompts together
  bool stream = false;
  bool include_usage = false;  // of a stream; a single body always has it
  bool logprobs = false;
  bool explain = false;       // add the kvgate object
  int cache_ttl_seconds = 0;  // the longest of the caller's marks
  ResponseShape response = {};
};

// One reply. Not thread-safe. OnStart, OnDelta any number of times, then OnFinish once.
class ReplyEncoder {
 public:
  explicit ReplyEncoder(ReplyOptions options);
  virtual ~ReplyEncoder() = default;

  // Each appends what can be sent now; nothing before OnFinish for a single body.
  // `usage` is what is known by now: of what was cached often nothing yet.
  virtual void OnStart(const PromptUsage& usage, std::string& out) = 0;
  virtual void OnDelta(const DeltaEvent& event, std::string& out) = 0;
  // In a stream an error becomes its last event, and no [DONE] follows.
  // REQUIRES for a single body: no error (an error has a status and a body of its own: errors.h).
  virtual void OnFinish(const FinishEvent& event, std::string& out) = 0;
  // What keeps a silent stream alive and shows a dead one; every reader skips it.
  virtual std::string_view ping() const { return kSsePing; }

 protected:
  // Adds a delta to what is known of its choice; most streams need no text kept.
  void Keep(const DeltaEvent& event);
  // Ends the choices that no delta has ended; their indices.
  std::vector<int> EndOpenChoices(FinishReason reason);

  const ReplyOptions options_;
  std::vector<ReplyChoice> choices_;
};

std::unique_ptr<ReplyEncoder> MakeReplyEncoder(ReplyOptions options);

// --- what the dialects share ------------------------------------------------------------------

// "chatcmpl-…", "cmpl-…", "msg_…", "resp_…": the dialect's prefix and the request's own id.
std::string ReplyId(const ReplyOptions& options);
std::string_view FinishReasonName(FinishReason reason);
// Appends one SSE event: "data: JSON\n\n". `json` holds no line break: AppendJsonString escapes
// them.
void AppendSseEvent(std::string_view json, std::string& out);
// Appends "event: NAME\ndata: JSON\n\n".
void AppendNamedSseEvent(std::string_view name, std::string_view json, std::string& out);
// [{"token","logprob","bytes","top_logprobs":[…]}]: as both OpenAI dialects with messages have it.
void WriteTokenDetails(std::span<const TokenDetail> tokens, JsonWriter& json);
// {"prompt_tokens":…}
void WriteUsage(const CompletionStats& stats, JsonWriter& json);
// The kvgate object of x-kvgate-explain.
void WriteExplain(const CompletionStats& stats, std::string_view request_id, JsonWriter& json);

}  // namespace kvgate::protocol
