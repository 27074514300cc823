// LocalProvider makes the embedded engine a provider: it resolves model names, turns prompts into
// token ids, applies limits and yields events. It knows no sockets and no JSON. Thread-safe,
// because all state is fixed at construction.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/text/chat/chat_format.h"
#include "engine/text/chat/template_capabilities.h"
#include "engine/text/grammar/compiler.h"
#include "engine/text/output/families.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/local/event_stream.h"
#include "gateway/metrics/gateway_metrics.h"

namespace kvgate::local {

class LocalProvider {
 public:
  struct Parts {
    engine::Engine& engine;                 // must outlive the provider
    const tokenizer::Tokenizer& tokenizer;  // must outlive the provider
    std::unique_ptr<chat::ChatFormat> chat_format;
    std::vector<std::string> names;  // all names of the model; the first is its id
    metrics::GatewayMetrics* metrics = nullptr;
    int64_t created_unix = 0;
    std::shared_ptr<grammar::mask::GrammarMemory> grammar_memory =
        {};  // the engine's; null: its own
    int64_t default_max_tokens =
        0;  // for answers without another bound; 0: the rest of the context
  };
  // REQUIRES: at least one name.
  explicit LocalProvider(Parts parts);

  const std::string& id() const { return parts_.names.front(); }
  const std::vector<std::string>& names() const { return parts_.names; }
  int64_t created_unix() const { return parts_.created_unix; }
  bool Serves(std::string_view model) const;
  // The smaller of the context and one tenant's share of the KV memory. The engine refuses a longer
  // prompt too, but without the wording on which clients compact their history.
  int64_t prompt_tokens_max() const {
    const engine::EngineInfo& info = parts_.engine.info();
    const int64_t share = info.tenant_tokens_max;
    return share > 0 ? std::min<int64_t>(info.context_tokens_max, share) : info.context_tokens_max;
  }
  // Returns true if prompts contain the reasoning of earlier turns.
  bool writes_reasoning() const { return !traits_.reasoning_field.empty(); }
  engine::Engine& engine() const { return parts_.engine; }
  const tokenizer::Tokenizer& tokenizer() const { return parts_.tokenizer; }
  // Returns the tokens of an answer whose request sets no limit; 0: as many as there is room for.
  int64_t default_max_tokens() const { return parts_.default_max_tokens; }

  // Returns true if Run compiles a grammar for the request, which may take long.
  static bool Compiles(const dialect::form::CompletionRequest& request);

  struct RunArgs {
    const dialect::form::CompletionRequest& request;
    std::string tenant;  // used as the salt: prefixes are shared within a tenant only
    bool logits_hash = false;
    int64_t prompt_tokens_max = 0;  // per prompt, in addition to the context's bound; 0: no limit
    dialect::form::OutputLimit output = {};
    std::function<void()> wake = {};  // see EventStream; called on the engine thread
    // Elements of the body's list of messages, ascending, behind which the tokens of a chat are
    // counted apart, where a message ends there. Each may cost a rendering.
    std::span<const int32_t> cuts = {};
  };
  // Renders, tokenizes and submits the request, with one engine request per choice, all or none.
  // Fails with kInvalidArgument, which names the field, or with kOverloaded if a later try may
  // succeed.
  Result<std::unique_ptr<EventStream>> Run(const RunArgs& args) const;

  // Returns the tokens with which a following request would begin: for a chat its rendered messages
  // without the opening of the answer's turn, else the whole prompt. Fails as Run does.
  Result<std::vector<TokenId>> EncodePrefix(const dialect::form::CompletionRequest& request) const;

  // Returns the number of tokens of a request's prompt. Fails as Run does.
  Result<int64_t> CountTokens(const dialect::form::CompletionRequest& request) const;

  // Returns the prompts as texts, for `echo`.
  std::vector<std::string> PromptTexts(const dialect::form::CompletionRequest& request) const;

 private:
  struct EncodedPrompt {
    std::vector<TokenId> tokens;
    std::vector<dialect::form::PromptSegment> segments;
    int max_tokens = 0;
    size_t num_prefix_tokens = 0;  // without the opening of the answer's turn
    size_t num_stable_tokens = 0;  // before the newest turn
    size_t num_marked_tokens = 0;  // up to the caller's last cache breakpoint
    size_t num_fixed_tokens = 0;   // up to its last breakpoint in tools or system text
    int fixed_ttl_seconds = 0;
    void Fix(size_t num_tokens, int ttl_seconds) {
      num_fixed_tokens = std::max(num_fixed_tokens, num_tokens);
      fixed_ttl_seconds = std::max(fixed_ttl_seconds, ttl_seconds);
    }
    std::string tail;  // the end of a chat's rendering, which opens the answer's turn
  };
  // Encodes all prompts of the request and checks them against the context.
  Result<std::vector<EncodedPrompt>> EncodeAll(const RunArgs& args) const;
  // `cuts` as in RunArgs.
  Result<EncodedPrompt> Encode(const dialect::form::Prompt& prompt,
                               const dialect::form::CompletionRequest& request,
                               std::span<const int32_t> cuts = {}) const;
  Result<EncodedPrompt> EncodeChat(const std::vector<dialect::form::Message>& messages,
                                   const dialect::form::CompletionRequest& request,
                                   std::span<const int32_t> cuts) const;
  // Pins the part up to the caller's last tools or system breakpoint in pool and arena for its
  // TTL.
  void PinToBreakpoint(const EncodedPrompt& prompt, const RunArgs& args) const;
  // Compiles the grammar of the answer; null if any text is allowed. A large schema takes time.
  // `tail` is the prompt's tail.
  Result<std::shared_ptr<const grammar::mask::CompiledGrammar>> CompileOutput(
      const dialect::form::CompletionRequest& request, std::string_view tail) const;
  // Compiles the grammar of a chat's answer, including calls of its tools.
  Result<std::shared_ptr<const grammar::mask::CompiledGrammar>> CompileReply(
      const dialect::form::CompletionRequest& request, const grammar::Source* output,
      std::string_view tail) const;
  Result<int> TokensMax(const RunArgs& args, size_t num_prompt_tokens) const;
  Result<void> CheckLogitBias(const dialect::form::CompletionRequest& request) const;

  static bool LooksForCalls(const dialect::form::CompletionRequest& request);
  // Returns true if the family's marks, by which an answer is parsed, are control tokens to be
  // shown.
  bool ShowsMarks(const dialect::form::CompletionRequest& request) const;
  std::unique_ptr<EventStream> Parse(std::unique_ptr<EventStream> stream,
                                     const EncodedPrompt& prompt,
                                     const dialect::form::CompletionRequest& request) const;

  Parts parts_;
  const chat::TemplateCapabilities traits_;
  const output::Family& family_;                       // how the model writes reasoning and calls
  const std::unique_ptr<grammar::Compiler> compiler_;  // thread-safe
  const std::unique_ptr<grammar::Compiler> marks_compiler_;  // used if marks are shown; thread-safe
};

// Returns the names of a model file: its general.name, file stem, file name, and "local".
std::vector<std::string> LocalModelNames(std::string_view general_name, std::string_view path);

}  // namespace kvgate::local
