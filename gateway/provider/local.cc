#include "gateway/provider/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>
#include <utility>

#include <kvgate/check.h>

#include "gateway/provider/local_stream.h"
#include "gateway/provider/merged_stream.h"

namespace kvgate::provider {
namespace {

using protocol::CompletionRequest;
using protocol::Dialect;
using protocol::Message;

// What the API documents for /v1/completions where max_tokens is absent.
constexpr int64_t kCompletionsTokensDefault = 16;

// The field that a prompt came in, for errors: "messages", "prompt", "prompt[3]".
std::string PromptField(const CompletionRequest& request, size_t index) {
  if (request.dialect == Dialect::kChatCompletions) return "messages";
  return request.more_prompts.empty() ? "prompt" : fmt::format("prompt[{}]", index);
}

// What a request may have unread in all its choices together, and one of many at least.
constexpr size_t kPendingBytesMax = size_t{16} << 20;
constexpr size_t kPendingBytesMin = size_t{1} << 20;

uint64_t RandomSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

sample::SamplingParams ToSampling(const CompletionRequest& request, int answer) {
  sample::SamplingParams params = {
      .temperature = request.temperature,
      .top_k = request.top_k,
      // Zero keeps the most likely token, as the limit of small values does.
      .top_p = std::max(request.top_p, std::numeric_limits<float>::min()),
      .min_p = request.min_p,
      .typical_p = request.typical_p,
      .top_n_sigma = request.top_n_sigma,
      .xtc_probability = request.xtc_probability,
      .xtc_threshold = request.xtc_threshold,
      .adjustments = {.repetition_penalty = request.repetition_penalty,
                      .repetition_window = request.repeat_last_n,
                      .presence_penalty = request.presence_penalty,
                      .frequency_penalty = request.frequency_penalty},
      .seed = request.seed ? *request.seed + static_cast<uint64_t>(answer) : RandomSeed(),
      .num_logprobs = request.num_logprobs};
  for (const protocol::TokenBias& bias : request.logit_bias) {
    params.adjustments.biases.push_back({.token = bias.token, .bias = bias.bias});
  }
  return params;
}

// Where each message's tokens are counted. Turns that come before the last answer are history.
std::vector<std::string_view> SourcesOf(const std::vector<Message>& messages) {
  size_t num_answered = messages.size();
  while (num_answered > 0 && messages[num_answered - 1].role != "assistant") --num_answered;
  std::vector<std::string_view> sources;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    sources.push_back(role == "system" || role == "developer" ? "system"
                      : i < num_answered                      ? "history"
                      : role == "tool"                        ? "tool_results"
                                                              : "user");
  }
  return sources;
}

}  // namespace

LocalProvider::LocalProvider(Parts parts)
    : parts_(std::move(parts)),
      compiler_(
          std::make_unique<grammar::Compiler>(parts_.tokenizer, grammar::Compiler::Options())) {
  KVGATE_CHECK(!parts_.names.empty(), "a model without a name");
}

bool LocalProvider::Serves(std::string_view model) const {
  return std::find(parts_.names.begin(), parts_.names.end(), model) != parts_.names.end();
}

std::vector<std::string> LocalProvider::PromptTexts(const CompletionRequest& request) const {
  std::vector<std::string> texts = {PromptText(request.prompt)};
  for (const protocol::Prompt& prompt : request.more_prompts) texts.push_back(PromptText(prompt));
  return texts;
}

std::string LocalProvider::PromptText(const protocol::Prompt& prompt) const {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) {
    const int vocab_size = parts_.tokenizer.vocab_size();
    const bool known = std::all_of(ids->begin(), ids->end(),
                                   [&](TokenId id) { return id >= 0 && id < vocab_size; });
    return known ? parts_.tokenizer.Decode(*ids) : "";
  }
  return "";
}

Result<std::vector<LocalProvider::EncodedPrompt>> LocalProvider::EncodeAll(
    const CompletionRequest& request) const {
  std::vector<EncodedPrompt> encoded;
  for (size_t i = 0; i <= request.more_prompts.size(); ++i) {
    const protocol::Prompt& source = i == 0 ? request.prompt : request.more_prompts[i - 1];
    KVGATE_TRY(EncodedPrompt prompt, Encode(source, request.template_arguments));
    Result<int> max_tokens = TokensMax(request, prompt.tokens.size());
    if (!max_tokens) {
      max_tokens.error().field = PromptField(request, i);
      return std::move(max_tokens).error();
    }
    prompt.max_tokens = *max_tokens;
    encoded.push_back(std::move(prompt));
  }
  return encoded;
}

Result<LocalProvider::EncodedPrompt> LocalProvider::Encode(
    const protocol::Prompt& prompt, const jinja::Data::Dict& arguments) const {
  if (const auto* messages = std::get_if<std::vector<Message>>(&prompt)) {
    return EncodeChat(*messages, arguments);
  }
  EncodedPrompt encoded;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) {
    encoded.tokens = *ids;
  } else {
    encoded.tokens = parts_.tokenizer.Encode(std::get<std::string>(prompt), {});
  }
  encoded.segments.push_back(
      {.source = "user", .num_tokens = static_cast<int64_t>(encoded.tokens.size())});
  encoded.num_prefix_tokens = encoded.tokens.size();
  return encoded;
}

Result<LocalProvider::EncodedPrompt> LocalProvider::EncodeChat(
    const std::vector<Message>& messages, const jinja::Data::Dict& arguments) const {
  std::vector<chat::ChatMessage> turns;
  for (const Message& message : messages) {
    turns.push_back({.role = message.role, .content = message.content});
  }
  // Only the ends of runs of one source matter, and that of the last message.
  const std::vector<std::string_view> sources = SourcesOf(messages);
  std::vector<size_t> run_ends;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (i + 1 == sources.size() || sources[i + 1] != sources[i]) run_ends.push_back(i);
  }
  KVGATE_TRY(const chat::RenderedChat rendered,
             parts_.chat_format->Render(
                 {.messages = turns, .arguments = &arguments, .wanted_ends = run_ends}));
  chat::TokenizedChat tokenized = chat::TokenizeChat(parts_.tokenizer, rendered);
  EncodedPrompt prompt{.tokens = std::move(tokenized.tokens), .segments = {}};
  size_t begin = 0;
  for (size_t i = 0; i < run_ends.size(); ++i) {
    // The opening of the answer's turn belongs to the last message. Of a template that rewrites
    // history the ends may not ascend.
    const bool last = i + 1 == run_ends.size();
    const size_t end = last ? prompt.tokens.size() : std::max(begin, tokenized.message_ends[i]);
    const std::string_view source = sources[run_ends[i]];
    prompt.segments.push_back({.source = source, .num_tokens = static_cast<int64_t>(end - begin)});
    const bool stable = source == "system" || source == "history";
    if (stable && prompt.num_stable_tokens == begin) prompt.num_stable_tokens = end;
    begin = end;
  }
  prompt.num_prefix_tokens = tokenized.message_ends.back();
  return prompt;
}

Result<int> LocalProvider::TokensMax(const CompletionRequest& request,
                                     size_t num_prompt_tokens) const {
  const int64_t context = parts_.engine.info().context_tokens_max;
  const int64_t room = context - static_cast<int64_t>(num_prompt_tokens);
  const int64_t fallback =
      request.dialect == Dialect::kCompletions ? kCompletionsTokensDefault : room;
  const int64_t wanted = request.max_tokens.value_or(fallback);
  if (room < 0 || (room == 0 && wanted != 0)) {
    return MakeError(
        ErrorCode::kInvalidArgument, protocol::kContextLengthSource,
        fmt::format("This model's maximum context length is {} tokens, but the prompt has {} and "
                    "the answer needs at least one.",
                    context, num_prompt_tokens));
  }
  return static_cast<int>(std::min(wanted, room));
}

Result<void> LocalProvider::CheckLogitBias(const CompletionRequest& request) const {
  const int vocab_size = parts_.tokenizer.vocab_size();
  for (const protocol::TokenBias& bias : request.logit_bias) {
    if (bias.token < vocab_size) continue;
    return MakeError(ErrorCode::kInvalidArgument, "provider.local",
                     fmt::format("Invalid value for 'logit_bias': token id {} is not in the "
                                 "vocabulary of {} tokens.",
                                 bias.token, vocab_size),
                     "logit_bias");
  }
  return {};
}

Result<std::shared_ptr<const grammar::CompiledGrammar>> LocalProvider::CompileOutput(
    const CompletionRequest& request) const {
  const protocol::OutputFormat& output = request.output;
  grammar::Source source{.text = output.text};
  switch (output.kind) {
    case protocol::OutputKind::kAnyText:
      return std::shared_ptr<const grammar::CompiledGrammar>();
    case protocol::OutputKind::kJsonObject:
      source.kind = grammar::SourceKind::kJsonObject;
      break;
    case protocol::OutputKind::kJsonSchema:
      source.kind = grammar::SourceKind::kJsonSchema;
      break;
    case protocol::OutputKind::kGbnf:
      source.kind = grammar::SourceKind::kGbnf;
      break;
  }
  auto compiled = compiler_->Compile(source);
  if (compiled) return compiled;
  // A place in the schema is a place in the body.
  const Error& error = compiled.error();
  const std::string field =
      error.field.empty() ? output.field : fmt::format("{}.{}", output.field, error.field);
  const bool is_unsupported = error.code == ErrorCode::kUnsupported;
  return MakeError(is_unsupported ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument,
                   "provider.local",
                   fmt::format("{} value for '{}': {}.", is_unsupported ? "Unsupported" : "Invalid",
                               field, error.detail),
                   field);
}

Result<std::vector<TokenId>> LocalProvider::EncodePrefix(const CompletionRequest& request) const {
  if (!request.more_prompts.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "provider.local",
                     "Invalid value for 'prompt': one prompt has one prefix; there are several.",
                     "prompt");
  }
  KVGATE_TRY(EncodedPrompt prompt, Encode(request.prompt, request.template_arguments));
  prompt.tokens.resize(prompt.num_prefix_tokens);
  const auto context = static_cast<size_t>(parts_.engine.info().context_tokens_max);
  if (prompt.tokens.size() > context) {
    return MakeError(ErrorCode::kInvalidArgument, protocol::kContextLengthSource,
                     fmt::format("This model's maximum context length is {} tokens, but the prefix "
                                 "has {}.",
                                 context, prompt.tokens.size()),
                     std::string(PromptField(request, 0)));
  }
  return std::move(prompt.tokens);
}

Result<std::unique_ptr<EventStream>> LocalProvider::Run(const RunArgs& args) const {
  const CompletionRequest& request = args.request;
  KVGATE_TRY_VOID(CheckLogitBias(request));
  KVGATE_TRY(const auto grammar, CompileOutput(request));
  KVGATE_TRY(const std::vector<EncodedPrompt> prompts, EncodeAll(request));
  std::vector<std::string> stops = request.stop;
  // Who ignores the end of a generation ignores the end of a turn with it.
  if (request.dialect == Dialect::kChatCompletions && !request.ignore_eos) {
    for (const std::string& stop : parts_.chat_format->stop_strings()) stops.push_back(stop);
  }
  const auto num_answers = static_cast<size_t>(request.num_choices);
  const size_t num_choices = prompts.size() * num_answers;
  std::vector<std::unique_ptr<EventStream>> choices;
  for (size_t i = 0; i < num_choices; ++i) {
    const EncodedPrompt& prompt = prompts[i / num_answers];
    engine::GenerationRequest generation{
        .prompt = prompt.tokens,
        .max_tokens = prompt.max_tokens,
        .sampling = ToSampling(request, static_cast<int>(i % num_answers)),
        .stop_strings = stops,
        .ignore_end_of_generation = request.ignore_eos,
        .grammar = grammar,
        .hash_logits = args.logits_hash,
        .cache_salt = args.tenant,
        .num_stable_tokens = static_cast<int>(prompt.num_stable_tokens),
        .sink = nullptr};
    auto stream = StartLocalStream(
        std::move(generation),
        {.engine = parts_.engine,
         .tokenizer = parts_.tokenizer,
         .metrics = parts_.metrics,
         .logprobs = request.num_logprobs >= 0,
         .logits_hash = args.logits_hash,
         .segments = prompt.segments,
         .pending_bytes_max = std::max(kPendingBytesMax / num_choices, kPendingBytesMin),
         .wake = args.wake});
    if (!stream) {  // those begun end with their streams
      Error error = std::move(stream).error();
      if (error.field == "prompt") error.field = PromptField(request, i / num_answers);
      return error;
    }
    choices.push_back(std::move(*stream));
  }
  if (choices.size() == 1) return std::move(choices.front());
  return MergeStreams(std::move(choices), request.num_choices);
}

std::vector<std::string> LocalModelNames(std::string_view general_name, std::string_view path) {
  const std::filesystem::path file(path);
  std::vector<std::string> names;
  for (std::string name : {std::string(general_name), file.stem().string(),
                           file.filename().string(), std::string("local")}) {
    const bool seen = std::find(names.begin(), names.end(), name) != names.end();
    if (!name.empty() && !seen) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace kvgate::provider
