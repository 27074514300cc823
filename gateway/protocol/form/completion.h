// The internal form of a generation: what every dialect decodes to and encodes from.
// It knows no sockets, no engine and no wire format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/jinja/data.h"

namespace kvgate::protocol {

enum class Dialect : uint8_t { kChatCompletions, kCompletions, kMessages, kResponses };

// An error whose `source` is this one means: the prompt does not fit the model's context.
inline constexpr std::string_view kContextLengthSource = "context_length";
// … and these: a conversation that the server was to keep (the Messages dialect's threads), which
// it does not do; one that it was said to have kept.
inline constexpr std::string_view kThreadSource = "thread_unsupported_request";
inline constexpr std::string_view kThreadLostSource = "thread_not_found";
// … and these, of the Responses dialect: a response to go on from that is not there; a conversation
// that is being answered in. They are the codes that clients get.
inline constexpr std::string_view kPreviousResponseSource = "previous_response_not_found";
inline constexpr std::string_view kLockedSource = "conversation_locked";

// A call of a tool that a model made.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text as the model, or the caller, wrote it
  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

// One turn of a conversation; content parts are joined in their order.
struct Message {
  std::string role;  // "system", "developer", "user", "assistant" or "tool"
  std::string content = {};
  std::string reasoning = {};             // of an assistant, before its content
  std::vector<ToolCall> tool_calls = {};  // of an assistant, behind its content
  std::string tool_call_id = {};          // of a tool: the call that it answers
  int cache_ttl_seconds = 0;              // the caller marks the end of this turn as worth keeping
  friend bool operator==(const Message&, const Message&) = default;
};

// What describes the text that a custom tool takes; kText: any.
enum class InputSyntax : uint8_t { kText, kLark, kRegex };

// A tool that the model may call.
struct Tool {
  std::string name;             // as the model knows it: flat, whatever namespace it is in
  jinja::Data definition = {};  // as chat templates take it: {"type":"function","function":{…}}
  std::string parameters = {};  // the JSON Schema of its arguments, as text; empty: none given
  bool strict = false;          // arguments must follow it
  std::string field = {};       // where that schema stands in the body, for errors
  // A custom tool takes one text. The model knows it as a function of one argument, "input".
  bool is_custom = false;
  InputSyntax input_syntax = InputSyntax::kText;
  std::string input_grammar = {};
  std::string space = {};  // its namespace; see FlatName in client_calls.h
};

enum class ToolMode : uint8_t { kAuto, kNone, kRequired };

// Which of the tools may be called. The prompt holds all of them whatever this says: a choice must
// not cost the prefix.
struct ToolChoice {
  ToolMode mode = ToolMode::kAuto;
  std::vector<std::string> allowed = {};  // names; empty: all. One and kRequired: that one
  bool parallel = true;                   // more than one call in a turn
};

// A conversation, a raw text, or token ids as they are.
using Prompt = std::variant<std::vector<Message>, std::string, std::vector<TokenId>>;

// Added to a token's logit before a token is chosen; -100 bans it.
struct TokenBias {
  TokenId token = 0;
  float bias = 0;
};

// What the answer must be.
enum class OutputKind : uint8_t { kAnyText, kJsonObject, kJsonSchema, kGbnf };

struct OutputFormat {
  OutputKind kind = OutputKind::kAnyText;
  std::string text = {};   // the schema as JSON, or the grammar
  std::string field = {};  // where it stands in the body, for errors
};

struct CompletionRequest {
  Dialect dialect = Dialect::kChatCompletions;
  std::string model;
  Prompt prompt;
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  int tools_cache_ttl_seconds = 0;  // as Message's
  // The answer goes on from this text of its own; chat alone.
  std::string answer_prefix;
  std::optional<bool> thinking;  // whether the model is to think first; absent: as it is used to
  std::string reasoning_effort;  // in the caller's words; empty: none given
  jinja::Data::Dict template_arguments;  // chat_template_kwargs: variables of the chat template
  std::vector<Prompt> more_prompts;      // answered in the same reply; completions only
  int num_choices = 1;                   // answers to each prompt

  std::optional<int64_t> max_tokens;  // absent: 16 for completions, else an OutputLimit's
  float temperature = 1.0f;
  float top_p = 1.0f;
  float min_p = 0.0f;
  int top_k = 0;
  float typical_p = 1.0f;
  float top_n_sigma = 0.0f;
  float xtc_probability = 0.0f;
  float xtc_threshold = 0.1f;
  float repetition_penalty = 1.0f;
  int repeat_last_n = -1;  // tokens that it looks at; -1: all
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  std::vector<TokenBias> logit_bias;  // one a token
  // The j-th answer to a prompt has seed + j, whatever else is in the request; absent: random ones.
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  int num_logprobs = -1;  // -1: none; k: the chosen token's and the k most likely ones'
  bool ignore_eos = false;
  OutputFormat output;
  bool echo = false;

  bool stream = false;
  bool include_usage = false;

  // What the engine cannot take and the prompt goes without, by what it is, each once: "image",
  // "web_search". See AddLeftOut in left_out.h.
  std::vector<std::string> left_out;
};

// A token and its log-probability. `bytes` may be a part of a UTF-8 character.
struct TokenLogprob {
  std::string bytes;
  float logprob = 0;
};

struct TokenDetail {
  TokenLogprob token;
  std::vector<TokenLogprob> top;  // most likely first
};

// kRefusal: the model's provider broke it off, or it would not answer; a local one never does.
enum class FinishReason : uint8_t { kStop, kLength, kToolCalls, kRefusal };

// What a delta adds to. Of a call first kCall with its id and name, then its arguments in pieces,
// then kCallEnd; calls do not overlap.
enum class DeltaKind : uint8_t { kText, kReasoning, kCall, kArguments, kCallEnd };

// What is to be shown now. Several of one kind may be merged into one when the reader is slow.
struct DeltaEvent {
  DeltaKind kind = DeltaKind::kText;
  std::string text = {};     // a piece of text, reasoning or arguments; a call's name
  std::string call_id = {};  // kCall
  int call = 0;              // which call of its choice, from 0
  // Of a call and its arguments: it is of a custom tool, and the arguments are its input as text.
  bool is_custom = false;
  std::string space = {};  // kCall: the namespace of the tool; its name is without it
  // kReasoning, of a provider: what it wants back unread with the reasoning up to here, which ends
  // with it. Clients get it where their dialect keeps such things; without one the encoders make up
  // their own.
  std::string seal = {};
  std::vector<TokenDetail> tokens = {};  // only where log-probabilities were asked for
  int choice = 0;                        // index of the prompt * num_choices + index of the answer
  std::optional<FinishReason> finish = {};  // nothing follows for this choice, but others go on
};

// How long a prompt is and what of it was there already.
struct PromptUsage {
  int64_t num_prompt_tokens = 0;
  int64_t num_cached_tokens = 0;
  int64_t num_marked_tokens = 0;  // up to the caller's last mark; 0: it has none
};

// The prompt has been computed: the first event, where there is an answer and only one.
struct BeginEvent {
  PromptUsage usage;
};

// A run of the prompt by where it came from: "system", "history", "tool_results" or "user".
struct PromptSegment {
  std::string_view source;  // a literal
  int64_t num_tokens = 0;
};

// A bound on answers that is not the request's own; 0: none.
struct OutputLimit {
  int64_t fallback = 0;  // where the request names none
  int64_t most = 0;      // whatever it names
};

// A stored prefix that was computed anew; see engine::GivenUpLoad.
struct GivenUpLoad {
  std::string_view reason;  // a literal; empty: none was given up
  int64_t num_tokens = 0;
  double load_seconds = 0;
  double compute_seconds = 0;
};

// What a request cost and where its prefix came from; durations in seconds.
struct CompletionStats {
  int64_t num_prompt_tokens = 0;
  int64_t num_output_tokens = 0;
  int64_t num_cached_tokens = 0;
  int64_t num_marked_tokens = 0;     // see PromptUsage
  int64_t num_written_tokens = -1;   // to a provider's cache, of the prompt; -1: nobody says
  int64_t num_reasoning_tokens = 0;  // of the output; estimated by its share of the text
  int64_t num_device_tokens = 0;
  int64_t num_host_tokens = 0;
  int64_t num_disk_tokens = 0;
  double queue_seconds = 0;
  double restore_seconds = 0;
  GivenUpLoad given_up = {};
  double prefill_seconds = 0;
  double ttft_seconds = 0;
  double total_seconds = 0;
  std::optional<uint64_t> logits_hash = {};
  std::vector<PromptSegment> segments = {};  // in order; together the whole prompt
  std::string prefix_break = {};  // why no more was cached, as a JSON object; empty: not known
};

// The last event of a stream: `reason` is that of every choice which no delta has ended, one at
// least; with an error it says nothing. Of several choices: each prompt's tokens count once, with
// what was cached for its first answer; durations are the first choice's, the total the longest.
struct FinishEvent {
  FinishReason reason = FinishReason::kStop;
  std::string stop_string = {};  // the caller's, where one ended the only choice
  CompletionStats stats = {};
  std::optional<Error> error = {};
};

using CompletionEvent = std::variant<BeginEvent, DeltaEvent, FinishEvent>;

}  // namespace kvgate::protocol
