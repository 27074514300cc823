// LocalProvider: the embedded engine as a provider: names, prompts to token ids, limits, events.
// It knows no sockets and no JSON. Thread-safe: all state is fixed at construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/engine.h"
#include "engine/text/grammar/compiler.h"
#include "engine/reply/families.h"
#include "engine/text/chat/chat_format.h"
#include "engine/text/chat/template_capabilities.h"
#include "gateway/metrics/gateway_metrics.h"
#include "gateway/protocol/form/completion.h"
#include "gateway/local/event_stream.h"

namespace kvgate::provider {

class LocalProvider {
 public:
  struct Parts {
    engine::Engine& engine;                 // outlives the provider
    const tokenizer::Tokenizer& tokenizer;  // likewise
    std::unique_ptr<chat::ChatFormat> chat_format;
    std::vector<std::string> names;  // what the model answers to; the first is its id
    metrics::GatewayMetrics* metrics = nullptr;
    int64_t created_unix = 0;
    std::shared_ptr<grammar::GrammarMemory> grammar_memory = {};  // the engine's; null: its own
    int64_t default_max_tokens =
        0;  // of answers that nobody else bounds; 0: what the context leaves
  };
  // REQUIRES: at least one name.
  explicit LocalProvider(Parts parts);

  const std::string& id() const { return parts_.names.front(); }
  const std::vector<std::string>& names() const { return parts_.names; }
  int64_t created_unix() const { return parts_.created_unix; }
  bool Serves(std::string_view model) const;
  // Whether the reasoning of turns before is a part of prompts.
  bool writes_reasoning() const { return !traits_.reasoning_field.empty(); }
  engine::Engine& engine() const { return parts_.engine; }

  // Whether Run compiles a grammar for it, which may take long.
  static bool Compiles(const protocol::CompletionRequest& request);

  struct RunArgs {
    const protocol::CompletionRequest& request;
    std::string tenant;  // its salt: prefixes are shared only within one
    bool logits_hash = false;
    int64_t prompt_tokens_max = 0;  // of each prompt, beside the context's; 0: no limit
    protocol::OutputLimit output = {};
    std::function<void()> wake = {};  // see EventStream; called on the engine thread
  };
  // Renders, tokenizes and submits, one engine request a choice. All of them or none:
  // kInvalidArgument names the field; kOverloaded: try again.
  Result<std::unique_ptr<EventStream>> Run(const RunArgs& args) const;

  // The tokens that a following request would begin with: of a chat its rendered messages without
  // the opening of the answer's turn, else the whole prompt. Errors as Run's.
  Result<std::vector<TokenId>> EncodePrefix(const protocol::CompletionRequest& request) const;

  // How many tokens a request's prompt has. Errors as Run's.
  Result<int64_t> CountTokens(const protocol::CompletionRequest& request) const;

  // The prompts as texts, for `echo`.
  std::vector<std::string> PromptTexts(const protocol::CompletionRequest& request) const;

 private:
  struct EncodedPrompt {
    std::vector<TokenId> tokens;
    std::vector<protocol::PromptSegment> segments;
    int max_tokens = 0;
    size_t num_prefix_tokens = 0;  // without the opening of the answer's turn
    size_t num_stable_tokens = 0;  // before the newest turn
    size_t num_marked_tokens = 0;  // up to the caller's last mark
    size_t num_fixed_tokens = 0;   // up to its last mark of tools or the system text
    int fixed_ttl_seconds = 0;
    void Fix(size_t num_tokens, int ttl_seconds) {
      num_fixed_tokens = std::max(num_fixed_tokens, num_tokens);
      fixed_ttl_seconds = std::max(fixed_ttl_seconds, ttl_seconds);
    }
    std::string tail;  // the end of a chat's rendering, as it opens the answer's turn
  };
  // All prompts of the request, checked against the context.
  Result<std::vector<EncodedPrompt>> EncodeAll(const RunArgs& args) const;
  Result<EncodedPrompt> Encode(const protocol::Prompt& prompt,
                               const protocol::CompletionRequest& request) const;
  Result<EncodedPrompt> EncodeChat(const std::vector<protocol::Message>& messages,
                                   const protocol::CompletionRequest& request) const;
  // Keeps what the caller marked in the pool and the arena, as long as it said.
  void ProtectMarked(const EncodedPrompt& prompt, const RunArgs& args) const;
  // What the answer must be; null: anything. Takes time with a large schema. `tail`: the prompt's.
  Result<std::shared_ptr<const grammar::CompiledGrammar>> CompileOutput(
      const protocol::CompletionRequest& request, std::string_view tail) const;
  // Of a chat: with the calls of its tools.
  Result<std::shared_ptr<const grammar::CompiledGrammar>> CompileReply(
      const protocol::CompletionRequest& request, const grammar::Source* output,
      std::string_view tail) const;
  Result<int> TokensMax(const RunArgs& args, size_t num_prompt_tokens) const;
  // What the context holds, or one tenant's share of the KV memory: the engine refuses a prompt
  // beyond that too, but in words that no client compacts on.
  int64_t PromptTokensMax() const {
    const engine::EngineInfo& info = parts_.engine.info();
    const int64_t share = info.tenant_tokens_max;
    return share > 0 ? std::min<int64_t>(info.context_tokens_max, share) : info.context_tokens_max;
  }
  Result<void> CheckLogitBias(const protocol::CompletionRequest& request) const;
  std::string PromptText(const protocol::Prompt& prompt) const;

  static bool LooksForCalls(const protocol::CompletionRequest& request);
  // Whether the marks that the answer is taken apart by are control tokens.
  bool ShowsMarks(const protocol::CompletionRequest& request) const;
  std::unique_ptr<EventStream> Parse(std::unique_ptr<EventStream> stream,
                                     const EncodedPrompt& prompt,
                                     const protocol::CompletionRequest& request) const;

  Parts parts_;
  const chat::ChatTraits traits_;
  const reply::Family& family_;                        // how the model writes reasoning and calls
  const std::unique_ptr<grammar::Compiler> compiler_;  // thread-safe
  const std::unique_ptr<grammar::Compiler> marks_compiler_;  // where marks are shown; likewise
};

// kInvalidArgument: more tokens than a caller may send; 0: no limit.
Result<void> CheckPromptTokens(size_t num_tokens, int64_t tokens_max, protocol::Dialect dialect);

// What a model file answers to: its general.name, file name, file stem, and "local".
std::vector<std::string> LocalModelNames(std::string_view general_name, std::string_view path);

}  // namespace kvgate::provider
