// The internal form of a generation, which every dialect decodes to and encodes from. It knows no
// sockets, no engine and no wire format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/text/jinja/value/data.h"
#include "gateway/dialect/form/dialect.h"

namespace kvgate::dialect::form {

// An error with this `source` means that the prompt does not fit the model's context.
inline constexpr std::string_view kContextLengthSource = "context_length";
// Errors with these sources concern the Messages dialect's threads, which the server does not keep:
// the request asks for one to be kept, or names one as kept.
inline constexpr std::string_view kThreadSource = "thread_unsupported_request";
inline constexpr std::string_view kThreadLostSource = "thread_not_found";
// Errors with these sources are the codes that clients of the Responses dialect get: the response
// to continue from does not exist, or the conversation is locked by another answer.
inline constexpr std::string_view kPreviousResponseSource = "previous_response_not_found";
inline constexpr std::string_view kLockedSource = "conversation_locked";
// An error with this source is a request that does not go on where its session stands: another one
// holds it, or this one says something else.
inline constexpr std::string_view kSessionSource = "session_conflict";

// A tool call that a model made.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text as the model, or the caller, wrote it
  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

// The TTLs that a cache breakpoint may have: "5m" and "1h".
inline constexpr int kShortTtlSeconds = 300;
inline constexpr int kLongTtlSeconds = 3600;

// One turn of a conversation; its content parts are joined in order.
struct Message {
  std::string role;  // "system", "developer", "user", "assistant" or "tool"
  std::string content = {};
  std::string reasoning = {};             // of an assistant turn, precedes its content
  std::vector<ToolCall> tool_calls = {};  // of an assistant turn, follow its content
  std::string tool_call_id = {};          // of a tool turn: the call that it answers
  int cache_ttl_seconds = 0;  // TTL of a cache breakpoint at the end of this turn; 0: none
  int element = -1;  // of the body's list of messages, the last one in it; -1: it is in none
  // Its place in a body makes no other message of it.
  friend bool operator==(const Message& a, const Message& b) {
    return a.role == b.role && a.content == b.content && a.reasoning == b.reasoning &&
           a.tool_calls == b.tool_calls && a.tool_call_id == b.tool_call_id &&
           a.cache_ttl_seconds == b.cache_ttl_seconds;
  }
};

// The grammar language for the text that a custom tool takes; kText allows any text.
enum class InputSyntax : uint8_t { kText, kLark, kRegex };

// A tool that the model may call.
struct Tool {
  std::string name;  // the flat name that the model sees, namespace included
  jinja::value::Data definition =
      {};                       // as chat templates take it: {"type":"function","function":{…}}
  std::string parameters = {};  // JSON Schema of the arguments, as text; empty if none is given
  bool strict = false;          // arguments must match the schema
  std::string field = {};       // path of the schema in the body, for errors
  // A custom tool takes one text. The model sees it as a function with one argument, "input".
  bool is_custom = false;
  InputSyntax input_syntax = InputSyntax::kText;
  std::string input_grammar = {};
  std::string space = {};  // its namespace; see FlatName in client_calls.h
};

enum class ToolMode : uint8_t { kAuto, kNone, kRequired };

// The tools that may be called. The prompt lists all tools regardless of the choice, so that
// changing the choice does not change the cached prefix.
struct ToolChoice {
  ToolMode mode = ToolMode::kAuto;
  std::vector<std::string> allowed = {};  // names; empty: all. kRequired and one name: that one
  bool parallel = true;                   // allows more than one call in a turn
};

// A conversation, a raw text, or token ids.
using Prompt = std::variant<std::vector<Message>, std::string, std::vector<TokenId>>;

// A value added to a token's logit before sampling; -100 bans the token.
struct TokenBias {
  TokenId token = 0;
  float bias = 0;
};

// The form that the answer must have.
enum class OutputKind : uint8_t { kAnyText, kJsonObject, kJsonSchema, kGbnf };

struct OutputFormat {
  OutputKind kind = OutputKind::kAnyText;
  std::string text = {};   // the schema as JSON, or the grammar
  std::string field = {};  // path in the body, for errors
};

struct CompletionRequest {
  Dialect dialect = Dialect::kChatCompletions;
  std::string model;
  Prompt prompt;
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  int tools_cache_ttl_seconds = 0;  // TTL of a cache breakpoint behind the tools; 0: none
  // Text with which the answer begins and that the model continues; chat only.
  std::string answer_prefix;
  std::optional<bool> thinking;  // asks for thinking, or for none; absent: the default
  std::string reasoning_effort;  // in the caller's words; empty if none is given
  jinja::value::Data::Dict
      template_arguments;            // chat_template_kwargs: variables of the chat template
  std::vector<Prompt> more_prompts;  // more prompts answered in the same reply; completions only
  int num_choices = 1;               // number of answers to each prompt

  std::optional<int64_t> max_tokens;  // absent: 16 for completions, else OutputLimit::fallback
  float temperature = 1.0f;
  float top_p = 1.0f;
  float min_p = 0.0f;
  int top_k = 0;
  float typical_p = 1.0f;
  float top_n_sigma = 0.0f;
  float xtc_probability = 0.0f;
  float xtc_threshold = 0.1f;
  float repetition_penalty = 1.0f;
  int repeat_last_n = -1;  // tokens that the repetition penalty considers; -1 means all
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::vector<TokenBias> logit_bias;  // at most one per token
  // The j-th answer to a prompt uses seed + j, independent of the rest of the request; if absent,
  // seeds are random.
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  int num_logprobs = -1;  // -1: none; k: the chosen token's and those of the k most likely
  bool ignore_eos = false;
  OutputFormat output;
  bool echo = false;

  bool stream = false;
  bool include_usage = false;

  // Kinds of content that the engine cannot take and the prompt leaves out, each named once:
  // "image", "web_search". See AddLeftOut in left_out.h.
  std::vector<std::string> left_out;
};

// A token and its log-probability. `bytes` may be an incomplete UTF-8 character.
struct TokenLogprob {
  std::string bytes;
  float logprob = 0;
};

struct TokenDetail {
  TokenLogprob token;
  std::vector<TokenLogprob> top;  // most likely first
};

// kRefusal: the model's provider stopped the answer or declined to answer. The local engine never
// does.
enum class FinishReason : uint8_t { kStop, kLength, kToolCalls, kRefusal };

// The part of an answer that a delta adds to. A call sends kCall with its id and name, then its
// arguments in pieces, then kCallEnd; calls do not overlap.
enum class DeltaKind : uint8_t { kText, kReasoning, kCall, kArguments, kCallEnd };

// Output to be shown now. Several deltas of one kind may be merged if the reader is slow.
struct DeltaEvent {
  DeltaKind kind = DeltaKind::kText;
  std::string text = {};     // a piece of text, reasoning or arguments; for kCall the tool's name
  std::string call_id = {};  // only for kCall
  int call = 0;              // index of the call within its choice, from 0
  // For calls and their arguments: the tool is custom, and the arguments are its input as text.
  bool is_custom = false;
  std::string space = {};  // kCall: the tool's namespace, which its name leaves out
  // kReasoning from a provider: opaque data that the provider wants back with the reasoning, which
  // ends here. Clients get it if their dialect has a field for it; without one the encoders
  // generate their own.
  std::string seal = {};
  std::vector<TokenDetail> tokens = {};     // only if log-probabilities were requested
  int choice = 0;                           // prompt index * num_choices + answer index
  std::optional<FinishReason> finish = {};  // ends this choice; other choices may continue
};

// The length of a prompt and how much of it was cached.
struct PromptUsage {
  int64_t num_prompt_tokens = 0;
  int64_t num_cached_tokens = 0;
  int64_t num_marked_tokens = 0;  // up to the caller's last cache breakpoint; 0 if it has none
};

// Reports that the prompt has been computed. It is the first event if there is exactly one answer.
struct BeginEvent {
  PromptUsage usage;
};

inline constexpr std::string_view kToolsSource = "tools";

// A run of prompt tokens with one source: "tools", "system", "history", "tool_results" or "user".
struct PromptSegment {
  std::string_view source;  // a string literal
  int64_t num_tokens = 0;
  int last_element = -1;  // Message::element of its last message
};

// A limit on answers that does not come from the request; 0 means none.
struct OutputLimit {
  int64_t fallback = 0;  // used if the request names no limit
  int64_t most = 0;      // upper bound on any limit that the request names
};

// A stored prefix that was recomputed instead of loaded; see engine::GivenUpLoad.
struct GivenUpLoad {
  std::string_view reason;  // a string literal; empty if no load was given up
  int64_t num_tokens = 0;
  double load_seconds = 0;
  double compute_seconds = 0;
};

// The cost of a request and the source of its cached prefix; durations in seconds.
struct CompletionStats {
  int64_t num_prompt_tokens = 0;
  int64_t num_output_tokens = 0;
  int64_t num_cached_tokens = 0;
  int64_t num_marked_tokens = 0;     // see PromptUsage
  int64_t num_written_tokens = -1;   // prompt tokens written to a provider's cache; -1 if unknown
  int64_t num_reasoning_tokens = 0;  // of the output; estimated from the share of its text
  int64_t num_device_tokens = 0;
  int64_t num_host_tokens = 0;
  int64_t num_disk_tokens = 0;
  int64_t num_shared_tokens = 0;
  BlockHash last_stored_block = {};  // as in engine::RequestStats; 0 if there are several answers
  double queue_seconds = 0;
  double restore_seconds = 0;
  GivenUpLoad given_up = {};
  double prefill_seconds = 0;
  double ttft_seconds = 0;
  double itl_seconds_max = 0;  // the longest gap between two tokens; 0: there are not two
  double total_seconds = 0;
  std::optional<uint64_t> logits_hash = {};
  std::vector<PromptSegment> segments = {};  // in order; together the whole prompt
  std::string prefix_break = {};  // why no more was cached, as a JSON object; empty if unknown
};

// The last event of a stream. `reason` applies to every choice that no delta has ended (at least
// one); it is meaningless if there is an error. With several choices each prompt's tokens count
// once, with the cached tokens of its first answer; durations are those of the first choice, the
// total is the longest.
struct FinishEvent {
  FinishReason reason = FinishReason::kStop;
  std::string stop_string = {};  // the caller's stop string, if one ended the only choice
  CompletionStats stats = {};
  std::optional<Error> error = {};
};

using CompletionEvent = std::variant<BeginEvent, DeltaEvent, FinishEvent>;

}  // namespace kvgate::dialect::form
