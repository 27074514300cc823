#include "gateway/provider/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>
#include <utility>

#include <kvgate/check.h>

#include "gateway/provider/local_stream.h"

namespace kvgate::provider {
namespace {

using protocol::CompletionRequest;
using protocol::Dialect;
using protocol::Message;

// What the API documents for /v1/completions where max_tokens is absent.
constexpr int64_t kCompletionsTokensDefault = 16;

std::string_view PromptField(const CompletionRequest& request) {
  return request.dialect == Dialect::kChatCompletions ? "messages" : "prompt";
}

uint64_t RandomSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

sample::SamplingParams ToSampling(const CompletionRequest& request) {
  return {.temperature = request.temperature,
          .top_k = request.top_k,
          // Zero keeps the most likely token, as the limit of small values does.
          .top_p = std::max(request.top_p, std::numeric_limits<float>::min()),
          .min_p = request.min_p,
          .seed = request.seed ? *request.seed : RandomSeed(),
          .num_logprobs = request.num_logprobs};
}

// Turns that come before the last answer are history.
std::string_view SourceOf(const std::vector<Message>& messages, size_t index) {
  const std::string& role = messages[index].role;
  if (role == "system" || role == "developer") return "system";
  const bool answered =
      std::any_of(messages.begin() + static_cast<std::ptrdiff_t>(index), messages.end(),
                  [](const Message& later) { return later.role == "assistant"; });
  if (answered) return "history";
  return role == "tool" ? "tool_results" : "user";
}

}  // namespace

LocalProvider::LocalProvider(Parts parts) : parts_(std::move(parts)) {
  KVGATE_CHECK(!parts_.names.empty(), "a model without a name");
}

bool LocalProvider::Serves(std::string_view model) const {
  return std::find(parts_.names.begin(), parts_.names.end(), model) != parts_.names.end();
}

std::string LocalProvider::PromptText(const CompletionRequest& request) const {
  if (const auto* text = std::get_if<std::string>(&request.prompt)) return *text;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) {
    const int vocab_size = parts_.tokenizer.vocab_size();
    const bool known = std::all_of(ids->begin(), ids->end(),
                                   [&](TokenId id) { return id >= 0 && id < vocab_size; });
    return known ? parts_.tokenizer.Decode(*ids) : "";
  }
  return "";
}

Result<LocalProvider::EncodedPrompt> LocalProvider::Encode(const CompletionRequest& request) const {
  if (const auto* messages = std::get_if<std::vector<Message>>(&request.prompt)) {
    return EncodeChat(*messages);
  }
  EncodedPrompt prompt;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) {
    prompt.tokens = *ids;
  } else {
    prompt.tokens = parts_.tokenizer.Encode(std::get<std::string>(request.prompt), {});
  }
  prompt.segments.push_back(
      {.source = "user", .num_tokens = static_cast<int64_t>(prompt.tokens.size())});
  prompt.num_prefix_tokens = prompt.tokens.size();
  return prompt;
}

Result<LocalProvider::EncodedPrompt> LocalProvider::EncodeChat(
    const std::vector<Message>& messages) const {
  std::vector<chat::ChatMessage> turns;
  for (const Message& message : messages) {
    turns.push_back({.role = message.role, .content = message.content});
  }
  KVGATE_TRY(const chat::RenderedChat rendered, parts_.chat_format->Render(turns));
  chat::TokenizedChat tokenized = chat::TokenizeChat(parts_.tokenizer, rendered);
  EncodedPrompt prompt{.tokens = std::move(tokenized.tokens), .segments = {}};
  size_t begin = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    // The opening of the answer's turn belongs to the last message.
    const bool last = i + 1 == messages.size();
    const size_t end = last ? prompt.tokens.size() : tokenized.message_ends[i];
    const std::string_view source = SourceOf(messages, i);
    if (prompt.segments.empty() || prompt.segments.back().source != source) {
      prompt.segments.push_back({.source = source});
    }
    prompt.segments.back().num_tokens += static_cast<int64_t>(end - begin);
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
                    context, num_prompt_tokens),
        std::string(PromptField(request)));
  }
  return static_cast<int>(std::min(wanted, room));
}

Result<std::vector<TokenId>> LocalProvider::EncodePrefix(const CompletionRequest& request) const {
  KVGATE_TRY(EncodedPrompt prompt, Encode(request));
  prompt.tokens.resize(prompt.num_prefix_tokens);
  const auto context = static_cast<size_t>(parts_.engine.info().context_tokens_max);
  if (prompt.tokens.size() > context) {
    return MakeError(ErrorCode::kInvalidArgument, protocol::kContextLengthSource,
                     fmt::format("This model's maximum context length is {} tokens, but the prefix "
                                 "has {}.",
                                 context, prompt.tokens.size()),
                     std::string(PromptField(request)));
  }
  return std::move(prompt.tokens);
}

Result<std::unique_ptr<EventStream>> LocalProvider::Run(const RunArgs& args) const {
  const CompletionRequest& request = args.request;
  KVGATE_TRY(EncodedPrompt prompt, Encode(request));
  KVGATE_TRY(const int max_tokens, TokensMax(request, prompt.tokens.size()));
  std::vector<std::string> stops = request.stop;
  // Who ignores the end of a generation ignores the end of a turn with it.
  if (request.dialect == Dialect::kChatCompletions && !request.ignore_eos) {
    for (const std::string& stop : parts_.chat_format->stop_strings()) stops.push_back(stop);
  }
  engine::GenerationRequest generation{
      .prompt = std::move(prompt.tokens),
      .max_tokens = max_tokens,
      .sampling = ToSampling(request),
      .stop_strings = std::move(stops),
      .ignore_end_of_generation = request.ignore_eos,
      .hash_logits = args.logits_hash,
      .cache_salt = args.tenant,
      .num_stable_tokens = static_cast<int>(prompt.num_stable_tokens),
      .sink = nullptr};
  auto stream = StartLocalStream(std::move(generation), {.engine = parts_.engine,
                                                         .tokenizer = parts_.tokenizer,
                                                         .metrics = parts_.metrics,
                                                         .logprobs = request.num_logprobs >= 0,
                                                         .logits_hash = args.logits_hash,
                                                         .segments = std::move(prompt.segments),
                                                         .wake = args.wake});
  if (!stream && stream.error().field == "prompt") {
    Error error = std::move(stream).error();
    error.field = PromptField(request);
    return error;
  }
  return stream;
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
