#include "gateway/runtime/local_engine.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/regular_file.h"
#include "engine/modelfile/hf_folder.h"
#include "engine/text/chat/template_format.h"
#include "gateway/runtime/machine/device.h"

namespace kvgate::runtime {
namespace {

constexpr uint64_t kTemplateBytesMax = uint64_t{16} << 20;

engine::EngineOptions ToEngineOptions(
    const config::Config& config, const DataTier& tier, const SharedTier* shared,
    std::shared_ptr<grammar::mask::GrammarMemory> grammar_memory) {
  return {.context_tokens_max = config.engine.context,
          .step_tokens_max = config.engine.step_tokens,
          .mixed_step_tokens_max = config.engine.mixed_step_tokens,
          .step_ms_max = config.engine.step_ms,
          .short_prompt_tokens = config.engine.short_prompt_tokens,
          .ttft_slo_ms = config.engine.ttft_slo_ms,
          .tenant_kv_share = config.engine.tenant_kv_share,
          .sequences_max = config.engine.sequences,
          .queue_max = config.engine.queue,
          .kv_bytes = config.engine.kv_memory_bytes,
          .host_bytes = config.cache.host_memory_bytes.value_or(0),
          .kv_dtype = kernels::FindDType(config.engine.kv_dtype).value(),
          .context_policy = schedule::FindContextPolicy(config.engine.context_policy).value(),
          .context_policy_tokens = config.engine.context_policy_tokens,
          .write_back_bytes_max = config.cache.write_back_bytes,
          .io_threads = config.engine.io_threads,
          .write_admission = tier.write_admission,
          .shared_write_admission = shared != nullptr ? shared->write_admission() : nullptr,
          .grammar_memory = std::move(grammar_memory),
          .hash_seed = tier.hash_seed()};
}

chat::TemplateFormatOptions TemplateOptions(const tokenizer::Tokenizer& tokenizer) {
  const auto text_of = [&tokenizer](std::optional<TokenId> id) {
    return id ? std::optional(tokenizer.TokenBytes(*id, true)) : std::nullopt;
  };
  return {.name = "tokenizer.chat_template",
          .source = {},
          .bos_token = text_of(tokenizer.bos()),
          .eos_token = text_of(tokenizer.eos())};
}

// `wanted` is a built-in's name or a file.
Result<std::unique_ptr<chat::ChatFormat>> NamedFormat(const std::string& wanted,
                                                      chat::TemplateFormatOptions options) {
  if (auto builtin = chat::MakeChatFormat(wanted); builtin) return builtin;
  Result<std::string> source = ReadRegularFile(wanted, {.bytes_max = kTemplateBytesMax});
  if (!source) {
    return MakeError(ErrorCode::kNotFound, "runtime",
                     fmt::format("engine.chat_template: '{}' is neither a file that can be read "
                                 "nor a built-in format (chatml, llama2, llama3, plain): {}",
                                 wanted, source.error().detail));
  }
  options.name = wanted;
  options.source = std::move(*source);
  return chat::MakeTemplateFormat(options);
}

// The format for a model whose template is missing or cannot be parsed.
Result<std::unique_ptr<chat::ChatFormat>> FallbackFormat(const tokenizer::Tokenizer& tokenizer) {
  const bool chatml = tokenizer.FindSpecial("<|im_start|>").has_value();
  const std::string_view fallback = chatml ? "chatml" : "plain";
  KVGATE_LOG(kWarning, "runtime",
             "the model has no chat template: the built-in format '{}' is used; --chat-template "
             "names another",
             fallback);
  return chat::MakeChatFormat(fallback);
}

// Returns the configured template or built-in, else the model's own template.
Result<std::unique_ptr<chat::ChatFormat>> ChooseChatFormat(const config::Config& config,
                                                           const modelfile::ModelFile& file,
                                                           const tokenizer::Tokenizer& tokenizer) {
  chat::TemplateFormatOptions options = TemplateOptions(tokenizer);
  if (!config.engine.chat_template.empty()) {
    return NamedFormat(config.engine.chat_template, std::move(options));
  }
  if (!config.engine.chat_format.empty()) return chat::MakeChatFormat(config.engine.chat_format);
  const std::optional<std::string_view> own = tokenizer.chat_template();
  if (!own) return FallbackFormat(tokenizer);
  options.source = *own;
  if (auto tool_use = file.GetString("tokenizer.chat_template.tool_use"); tool_use) {
    options.tool_use_source = std::move(*tool_use);
  }
  auto format = chat::MakeTemplateFormat(options);
  const std::string_view recognised = chat::RecogniseChatFormat(*own);
  if (format || recognised.empty()) return format;
  KVGATE_LOG(kError, "runtime",
             "THE MODEL'S CHAT TEMPLATE CANNOT BE USED: {}. The built-in format '{}' stands for "
             "it, which may not be what the model was trained on; --chat-template FILE names a "
             "template that works",
             format.error().detail, recognised);
  return chat::MakeChatFormat(recognised);
}

}  // namespace

Result<std::unique_ptr<LocalEngine>> LocalEngine::Open(const config::Config& config,
                                                       const DataTier& tier, SharedTier* shared) {
  const auto started = std::chrono::steady_clock::now();
  KVGATE_TRY(ModelSource source, ModelSource::Of(config));
  std::unique_ptr<LocalEngine> local(new LocalEngine(std::move(source)));
  KVGATE_LOG(kInfo, "runtime", "loading {}", local->source_.label());
  KVGATE_TRY(std::unique_ptr<modelfile::ModelFile> file,
             modelfile::OpenModelFile(local->source_.path()));
  local->file_ = std::move(file);
  KVGATE_TRY(local->tokenizer_, tokenizer::Tokenizer::Load(*local->file_));
  KVGATE_TRY(local->backend_, machine::MakeBackend(config.engine));
  local->grammar_memory_ = std::make_shared<grammar::mask::GrammarMemory>(
      grammar::mask::GrammarMemory::Options{.bytes_max = config.engine.grammar_memory_bytes});
  KVGATE_TRY(local->engine_,
             engine::Engine::Open(
                 ToEngineOptions(config, tier, shared, local->grammar_memory_), local->file_,
                 *local->backend_, *local->tokenizer_,
                 engine::Stores(tier.kv(), shared != nullptr ? &shared->blocks() : nullptr)));
  const engine::EngineInfo& info = local->engine_->info();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
  KVGATE_LOG(kInfo, "runtime",
             "loaded in {:.1f} s: {} on {} ({}, {} threads), context {} tokens (the model knows "
             "{}), {} KV blocks of {} KiB",
             elapsed.count(), info.model.architecture, info.backend.name, info.backend.target,
             info.backend.num_threads, info.context_tokens_max, info.model.context_length,
             info.num_kv_blocks, info.kv_block_bytes / 1024);
  if (!info.backend.kv_host_visible) {
    constexpr uint64_t kMebibyte = uint64_t{1} << 20;
    KVGATE_LOG(kInfo, "runtime",
               "device memory: weights {} MiB, activations {} MiB, KV {} MiB; host arena {} MiB",
               info.weight_bytes / kMebibyte, info.activation_bytes / kMebibyte,
               info.kv_bytes / kMebibyte, config.cache.host_memory_bytes.value_or(0) / kMebibyte);
  }
  return local;
}

Result<std::unique_ptr<local::LocalProvider>> LocalEngine::MakeProvider(
    const config::Config& config, metrics::GatewayMetrics* metrics) const {
  KVGATE_TRY(auto chat_format, ChooseChatFormat(config, *file_, *tokenizer_));
  return std::make_unique<local::LocalProvider>(local::LocalProvider::Parts{
      .engine = *engine_,
      .tokenizer = *tokenizer_,
      .chat_format = std::move(chat_format),
      .names = local::LocalModelNames(engine_->info().model.name,
                                      source_.is_default() ? "" : source_.path().string()),
      .metrics = metrics,
      .created_unix = static_cast<int64_t>(std::time(nullptr)),
      .grammar_memory = grammar_memory_,
      .default_max_tokens = config.engine.default_max_tokens});
}

}  // namespace kvgate::runtime
