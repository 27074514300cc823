#include "gateway/local/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "engine/text/chat/chat_fit.h"
#include "engine/text/output/reply_grammar.h"
#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/form/json_text.h"
#include "gateway/local/local_stream.h"
#include "gateway/local/merged_stream.h"
#include "gateway/local/parsed_stream.h"
#include "gateway/local/prompt_runs.h"
#include "gateway/local/prompt_tokens.h"

namespace kvgate::local {

namespace {

using dialect::form::CompletionRequest;
using dialect::form::Dialect;
using dialect::form::Message;
using jinja::value::Data;

// The documented default of max_tokens for /v1/completions.
constexpr int64_t kCompletionsTokensDefault = 16;

// Returns the request field that holds a prompt, for errors: "messages", "prompt", "prompt[3]".
std::string PromptField(const CompletionRequest& request, size_t index) {
  if (request.dialect == Dialect::kResponses) return "input";
  if (request.dialect != Dialect::kCompletions) return "messages";
  return request.more_prompts.empty() ? "prompt" : fmt::format("prompt[{}]", index);
}

// Bound of the unread bytes of all choices together, and the least that each of many choices gets.
constexpr size_t kPendingBytesMax = size_t{16} << 20;
constexpr size_t kPendingBytesMin = size_t{1} << 20;

sample::SamplingParams ToSampling(const CompletionRequest& request, int answer) {
  sample::SamplingParams params = {
      .temperature = request.temperature,
      .top_k = request.top_k,
      // Zero keeps only the most likely token, which is the limit for small values.
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
  for (const dialect::form::TokenBias& bias : request.logit_bias) {
    params.adjustments.biases.push_back({.token = bias.token, .bias = bias.bias});
  }
  return params;
}

grammar::SourceKind ToSourceKind(dialect::form::OutputKind kind) {
  switch (kind) {
    case dialect::form::OutputKind::kJsonSchema:
      return grammar::SourceKind::kJsonSchema;
    case dialect::form::OutputKind::kGbnf:
      return grammar::SourceKind::kGbnf;
    default:
      return grammar::SourceKind::kJsonObject;
  }
}

output::InputKind ToInputKind(const dialect::form::Tool& tool) {
  if (!tool.is_custom) return output::InputKind::kObject;
  return tool.input_syntax == dialect::form::InputSyntax::kLark    ? output::InputKind::kLark
         : tool.input_syntax == dialect::form::InputSyntax::kRegex ? output::InputKind::kRegex
                                                                   : output::InputKind::kText;
}

// Bytes of a rendering's end that are examined; the opening of an answer is shorter.
constexpr size_t kTailBytes = 256;

// The properties of the model to which a chat is fitted.
struct ChatForm {
  const chat::TemplateCapabilities& traits;
  output::CallStyle style;
  int id_length;  // required length of call ids; 0: any
  std::string_view call_example;
};

// Some templates insist on the form of their own model's ids.
std::string IdFor(const std::string& id, int length) {
  const bool fits =
      id.size() == static_cast<size_t>(length) &&
      std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c); });
  if (length == 0 || fits) return id;
  return ToHex(Sha256().Update(id).Finish().bytes).substr(0, static_cast<size_t>(length));
}

// Returns a call as templates take it, with the caller's own bytes if they take arguments as text.
Data ToCallData(const dialect::form::ToolCall& call, const ChatForm& form) {
  const bool as_text = form.traits.writes_calls ? form.traits.arguments_as_text
                                                : form.style != output::CallStyle::kPython;
  // A model may have written arguments that are no object, but templates need one.
  const std::string object = dialect::form::AsObject(call.arguments);
  Data arguments(object);
  if (!as_text) {
    if (auto data = dialect::form::ParseObject(object)) arguments = std::move(*data);
  }
  return Data::Dict{
      {"id", IdFor(call.id, form.id_length)},
      {"type", Data::Trusted("function")},
      {"function", Data::Dict{{"name", call.name}, {"arguments", std::move(arguments)}}}};
}

chat::ChatMessage ToChatMessage(const Message& message, const ChatForm& form) {
  chat::ChatMessage turn{.role = message.role, .content = message.content};
  if (const std::string& field = form.traits.reasoning_field;
      !message.reasoning.empty() && !field.empty()) {
    turn.more.emplace_back(field, message.reasoning);
  }
  if (!message.tool_calls.empty()) {
    Data::List calls;
    for (const dialect::form::ToolCall& call : message.tool_calls) {
      calls.push_back(ToCallData(call, form));
    }
    turn.more.emplace_back("tool_calls", std::move(calls));
  }
  if (message.role == "tool") {
    turn.more.emplace_back("tool_call_id", IdFor(message.tool_call_id, form.id_length));
  }
  return turn;
}

// Adds to each tool result the name of its tool, which templates ask for.
void NameResults(const std::vector<Message>& messages, std::vector<chat::ChatMessage>& turns) {
  std::map<std::string_view, std::string_view> names;
  for (size_t i = 0; i < messages.size(); ++i) {
    for (const dialect::form::ToolCall& call : messages[i].tool_calls) names[call.id] = call.name;
    if (messages[i].role != "tool") continue;
    if (const auto name = names.find(messages[i].tool_call_id); name != names.end()) {
      turns[i].more.emplace_back("name", name->second);
    }
  }
}

const Data* Find(const Data* data, std::string_view name) {
  const auto* dict = data == nullptr ? nullptr : std::get_if<Data::Dict>(&data->value());
  if (dict == nullptr) return nullptr;
  for (const auto& [key, value] : *dict) {
    if (key == name) return &value;
  }
  return nullptr;
}

// `type` is "string", or a list such as ["string", "null"].
bool IsType(const Data* type, std::string_view wanted) {
  if (type == nullptr) return false;
  if (const auto* name = std::get_if<std::string>(&type->value())) return *name == wanted;
  const auto* names = std::get_if<Data::List>(&type->value());
  return names != nullptr && std::any_of(names->begin(), names->end(),
                                         [&](const auto& name) { return IsType(&name, wanted); });
}

// True if the schema's type, one of its alternatives, or an enum of texts only, fits `wanted`.
bool MayBe(const Data& schema, std::string_view wanted) {
  if (IsType(Find(&schema, "type"), wanted)) return true;
  for (const char* name : {"anyOf", "oneOf"}) {
    const Data* any = Find(&schema, name);
    const auto* list = any == nullptr ? nullptr : std::get_if<Data::List>(&any->value());
    if (list != nullptr && std::any_of(list->begin(), list->end(), [&](const auto& item) {
          return IsType(Find(&item, "type"), wanted);
        })) {
      return true;
    }
  }
  const Data* values = Find(&schema, "enum");
  const auto* list = values == nullptr ? nullptr : std::get_if<Data::List>(&values->value());
  return wanted == "string" && list != nullptr && !list->empty() &&
         std::all_of(list->begin(), list->end(), [](const Data& value) {
           return std::holds_alternative<std::string>(value.value());
         });
}

// Tells from a tool's schema which arguments are texts.
output::ToolShape ToShape(const dialect::form::Tool& tool) {
  output::ToolShape shape{.name = tool.name, .text_arguments = {}};
  const Data* function = Find(&tool.definition, "function");
  const Data* properties = Find(Find(function, "parameters"), "properties");
  if (properties == nullptr) return shape;
  if (const auto* dict = std::get_if<Data::Dict>(&properties->value())) {
    for (const auto& [key, schema] : *dict) {
      if (!MayBe(schema, "string")) continue;
      shape.text_arguments.push_back(key);
      if (MayBe(schema, "null")) shape.nullable_arguments.push_back(key);
    }
  }
  return shape;
}

ChatForm FormOf(const output::Family& family, const chat::TemplateCapabilities& traits,
                const chat::ChatFormat& format) {
  return {.traits = traits,
          .style = family.style,
          .id_length = family.id_length,
          .call_example = output::ExampleOf(family, format.source())};
}

// If the tools are passed as text, calls are requested in the tags that every model knows.
const output::Family& FamilyOf(const chat::ChatFormat& format,
                               const chat::TemplateCapabilities& traits) {
  const output::Family& family = output::FamilyNamed(output::RecogniseFamily(format.source()));
  const bool other_tags = family.shape == output::ReplyShape::kTags &&
                          family.reasoning.open == std::string_view("<think>");
  const bool knows_calls = !traits.tools_variable.empty() || traits.writes_calls;
  return !knows_calls && other_tags ? output::FamilyNamed("generic") : family;
}

// The input from which a chat is rendered.
struct ChatInput {
  std::vector<chat::ChatMessage> messages = {};
  std::vector<size_t> places = {};  // index of each request message among `messages`
  bool tools_are_marked = false;    // the template itself lists the tools
  bool passes_tools = false;        // under the standard name `tools`
  Data tools = {};
  Data::Dict arguments;
};

Result<ChatInput> ToChatInput(const chat::ChatFormat& format, const ChatForm& form,
                              const std::vector<Message>& messages,
                              const CompletionRequest& request) {
  const std::string_view source = format.source();
  ChatInput input{.arguments = request.template_arguments};
  std::vector<chat::ChatMessage> turns;
  for (const Message& message : messages) turns.push_back(ToChatMessage(message, form));
  NameResults(messages, turns);
  Data::List tools;
  for (const dialect::form::Tool& tool : request.tools) tools.push_back(tool.definition);
  const bool has_tools = !tools.empty();
  input.tools = std::move(tools);
  KVGATE_TRY(chat::FittedChat fitted, chat::FitChat({.messages = turns,
                                                     .tools = has_tools ? &input.tools : nullptr,
                                                     .traits = form.traits,
                                                     .style = form.style,
                                                     .call_example = form.call_example}));
  input.messages = std::move(fitted.messages);
  input.places = std::move(fitted.places);
  input.tools_are_marked = has_tools && !fitted.tools_as_text;
  const bool standard = form.traits.tools_variable == "tools";
  input.passes_tools =
      (input.tools_are_marked && standard) || (!has_tools && form.traits.needs_tool_list);
  if (input.tools_are_marked && !standard) {
    input.arguments.emplace_back(form.traits.tools_variable, input.tools);
  }
  const auto set = [&](std::string_view name, Data value) {
    const auto& given = input.arguments;
    if (source.find(name) == std::string_view::npos) return;
    if (std::any_of(given.begin(), given.end(),
                    [&](const auto& argument) { return argument.first == name; })) {
      return;
    }
    input.arguments.emplace_back(std::string(name), std::move(value));
  };
  if (request.thinking) {
    set("enable_thinking", *request.thinking);
    if (source.find("enable_thinking") == std::string_view::npos) {
      set("thinking", *request.thinking);  // the name that DeepSeek and Granite use
    }
  }
  if (!request.reasoning_effort.empty()) set("reasoning_effort", request.reasoning_effort);
  return input;
}

}  // namespace

LocalProvider::LocalProvider(Parts parts)
    : parts_(std::move(parts)),
      traits_(chat::ProbeTraits(*parts_.chat_format)),
      family_(FamilyOf(*parts_.chat_format, traits_)),
      compiler_(std::make_unique<grammar::Compiler>(
          parts_.tokenizer, grammar::Compiler::Options{.memory = parts_.grammar_memory})),
      marks_compiler_(std::make_unique<grammar::Compiler>(
          parts_.tokenizer, grammar::Compiler::Options{.memory = parts_.grammar_memory,
                                                       .shown_marks = output::MarksOf(family_)})) {
  KVGATE_CHECK(!parts_.names.empty(), "a model without a name");
}

bool LocalProvider::Serves(std::string_view model) const {
  return std::find(parts_.names.begin(), parts_.names.end(), model) != parts_.names.end();
}

std::vector<std::string> LocalProvider::PromptTexts(const CompletionRequest& request) const {
  const auto text_of = [this](const dialect::form::Prompt& prompt) -> std::string {
    if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
    const auto* const ids = std::get_if<std::vector<TokenId>>(&prompt);
    if (ids == nullptr) return "";
    const int vocab_size = parts_.tokenizer.vocab_size();
    const bool known = std::all_of(ids->begin(), ids->end(),
                                   [&](TokenId id) { return id >= 0 && id < vocab_size; });
    return known ? parts_.tokenizer.Decode(*ids) : "";
  };
  std::vector<std::string> texts = {text_of(request.prompt)};
  for (const dialect::form::Prompt& prompt : request.more_prompts) texts.push_back(text_of(prompt));
  return texts;
}

Result<std::vector<LocalProvider::EncodedPrompt>> LocalProvider::EncodeAll(
    const RunArgs& args) const {
  const CompletionRequest& request = args.request;
  std::vector<EncodedPrompt> encoded;
  for (size_t i = 0; i <= request.more_prompts.size(); ++i) {
    const dialect::form::Prompt& source = i == 0 ? request.prompt : request.more_prompts[i - 1];
    KVGATE_TRY(EncodedPrompt prompt, Encode(source, request, args.cuts));
    Result<int> max_tokens = TokensMax(args, prompt.tokens.size());
    if (!max_tokens) {
      max_tokens.error().field = PromptField(request, i);
      return std::move(max_tokens).error();
    }
    prompt.max_tokens = *max_tokens;
    encoded.push_back(std::move(prompt));
  }
  return encoded;
}

Result<LocalProvider::EncodedPrompt> LocalProvider::Encode(const dialect::form::Prompt& prompt,
                                                           const CompletionRequest& request,
                                                           std::span<const int32_t> cuts) const {
  if (const auto* messages = std::get_if<std::vector<Message>>(&prompt)) {
    return EncodeChat(*messages, request, cuts);
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
    const std::vector<Message>& messages, const CompletionRequest& request,
    std::span<const int32_t> cuts) const {
  const ChatForm form = FormOf(family_, traits_, *parts_.chat_format);
  KVGATE_TRY(const ChatInput input, ToChatInput(*parts_.chat_format, form, messages, request));
  // Only the ends of source runs, of messages with breakpoints, at cuts, and of the last message
  // matter.
  const std::vector<std::string_view> sources = SourcesOf(messages);
  std::vector<size_t> wanted;  // indexes of rendered messages, ascending
  const auto wants = [&](size_t i) {
    return i + 1 == sources.size() || sources[i + 1] != sources[i] ||
           messages[i].cache_ttl_seconds > 0 || IsCut(messages, i, cuts);
  };
  for (size_t i = 0; i < sources.size(); ++i) {
    if (wants(i) && (wanted.empty() || wanted.back() != input.places[i])) {
      wanted.push_back(input.places[i]);
    }
  }
  KVGATE_TRY(chat::RenderedChat rendered,
             parts_.chat_format->Render({.messages = input.messages,
                                         .tools = input.passes_tools ? &input.tools : nullptr,
                                         .arguments = &input.arguments,
                                         .wanted_ends = wanted}));
  EncodedPrompt prompt;
  const size_t tail = std::min(rendered.text.size(), kTailBytes);
  prompt.tail = rendered.text.substr(rendered.text.size() - tail);
  rendered.text += request.answer_prefix;
  chat::TokenizedChat tokenized = chat::TokenizeChat(parts_.tokenizer, rendered);
  prompt.tokens = std::move(tokenized.tokens);
  size_t begin = 0;
  size_t next = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!wants(i)) continue;
    while (wanted[next] != input.places[i]) ++next;
    // The opening of the answer's turn belongs to the last message. If a template rewrites history,
    // the ends may not ascend.
    const bool last = i + 1 == sources.size();
    const size_t message_end = tokenized.message_ends[next];
    if (const int ttl = messages[i].cache_ttl_seconds; ttl > 0) {
      prompt.num_marked_tokens = std::max(prompt.num_marked_tokens, message_end);
      if (sources[i] == "system") prompt.Fix(message_end, ttl);
    }
    if (!last && sources[i + 1] == sources[i] && !IsCut(messages, i, cuts)) continue;
    const size_t end = last ? prompt.tokens.size() : std::max(begin, message_end);
    prompt.segments.push_back({.source = sources[i],
                               .num_tokens = static_cast<int64_t>(end - begin),
                               .last_element = messages[i].element});
    const bool stable = sources[i] == "system" || sources[i] == "history";
    if (stable && prompt.num_stable_tokens == begin) prompt.num_stable_tokens = end;
    begin = end;
  }
  SplitTools(tokenized, prompt.segments);
  if (const int ttl = request.tools_cache_ttl_seconds; ttl > 0) {
    // Tools that were passed as text are in the first message.
    const size_t end = tokenized.tools_end > 0 ? tokenized.tools_end : tokenized.message_ends[0];
    prompt.num_marked_tokens = std::max(prompt.num_marked_tokens, end);
    prompt.Fix(end, ttl);
  }
  prompt.num_stable_tokens = std::max(prompt.num_stable_tokens, prompt.num_marked_tokens);
  prompt.num_prefix_tokens = tokenized.message_ends.back();
  return prompt;
}

// Applies the request's own bound, else its key's, else the server's, but never more than the key
// allows or the context leaves.
Result<int> LocalProvider::TokensMax(const RunArgs& args, size_t num_prompt_tokens) const {
  const CompletionRequest& request = args.request;
  const int64_t context = parts_.engine.info().context_tokens_max;
  const int64_t share = prompt_tokens_max();
  const int64_t room = context - static_cast<int64_t>(num_prompt_tokens);
  int64_t fallback = parts_.default_max_tokens > 0 ? parts_.default_max_tokens : room;
  if (request.dialect == Dialect::kCompletions) fallback = kCompletionsTokensDefault;
  const int64_t wanted = WantedTokens(request, args.output, fallback);
  const int64_t needed = wanted != 0 ? 1 : 0;
  if (room < needed || static_cast<int64_t>(num_prompt_tokens) > share) {
    // The Messages error says that one number exceeds the other, so it gets the prompt's own bound.
    const bool is_messages = request.dialect == Dialect::kMessages;
    return dialect::form::ContextLengthError(
        request.dialect,
        {.num_tokens = static_cast<int64_t>(num_prompt_tokens),
         .tokens_max = std::min(is_messages ? context - needed : context, share)},
        {});
  }
  return static_cast<int>(std::min(wanted, room));
}

Result<void> LocalProvider::CheckLogitBias(const CompletionRequest& request) const {
  const int vocab_size = parts_.tokenizer.vocab_size();
  for (const dialect::form::TokenBias& bias : request.logit_bias) {
    if (bias.token < vocab_size) continue;
    return MakeError(ErrorCode::kInvalidArgument, "provider.local",
                     fmt::format("Invalid value for 'logit_bias': token id {} is not in the "
                                 "vocabulary of {} tokens.",
                                 bias.token, vocab_size),
                     "logit_bias");
  }
  return {};
}

Result<std::shared_ptr<const grammar::mask::CompiledGrammar>> LocalProvider::CompileOutput(
    const CompletionRequest& request, std::string_view tail) const {
  const dialect::form::OutputFormat& output = request.output;
  const bool is_any = output.kind == dialect::form::OutputKind::kAnyText;
  const bool is_chat = request.dialect != Dialect::kCompletions;
  if (is_any && !(is_chat && LooksForCalls(request))) {
    return std::shared_ptr<const grammar::mask::CompiledGrammar>();
  }
  const grammar::Source source = {.kind = ToSourceKind(output.kind), .text = output.text};
  // A caller's own grammar describes the whole reply, including reasoning and calls.
  const bool is_own = output.kind == dialect::form::OutputKind::kGbnf;
  if (is_own && request.tool_choice.mode == dialect::form::ToolMode::kRequired) {
    return MakeError(ErrorCode::kInvalidArgument, "provider.local",
                     fmt::format("Invalid value for '{}': it must not be given together with a "
                                 "tool_choice that asks for a call.",
                                 output.field),
                     output.field);
  }
  grammar::Compiler& compiler = is_chat && ShowsMarks(request) ? *marks_compiler_ : *compiler_;
  auto compiled = is_chat && !is_own ? CompileReply(request, is_any ? nullptr : &source, tail)
                                     : compiler.Compile(source);
  if (compiled) return compiled;
  const Error& error = compiled.error();
  if (error.code == ErrorCode::kOverloaded) return error;
  // The compiler's error names a place in a schema, which is reported as a place in the body.
  std::string field = error.field;
  if (!is_chat || field.empty()) {
    field = is_any ? "tools" : output.field;
    if (!error.field.empty()) field += "." + error.field;
  }
  const bool is_unsupported = error.code == ErrorCode::kUnsupported;
  return MakeError(is_unsupported ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument,
                   "provider.local",
                   fmt::format("{} value for '{}': {}.", is_unsupported ? "Unsupported" : "Invalid",
                               field, error.detail),
                   field);
}

Result<std::shared_ptr<const grammar::mask::CompiledGrammar>> LocalProvider::CompileReply(
    const CompletionRequest& request, const grammar::Source* output, std::string_view tail) const {
  const dialect::form::ToolChoice& choice = request.tool_choice;
  output::ReplyRules rules{.family = family_.name,
                           .chat_template = parts_.chat_format->source(),
                           .prompt_tail = request.answer_prefix.empty() ? tail : std::string_view(),
                           .tools = {},
                           .must_call = choice.mode == dialect::form::ToolMode::kRequired,
                           .parallel = choice.parallel,
                           .output = output,
                           .output_field = request.output.field};
  for (const dialect::form::Tool& tool : request.tools) {
    const bool is_allowed =
        choice.allowed.empty() ||
        std::find(choice.allowed.begin(), choice.allowed.end(), tool.name) != choice.allowed.end();
    if (!LooksForCalls(request) || !is_allowed) continue;
    rules.tools.push_back({.name = tool.name,
                           .parameters = tool.parameters,
                           .strict = tool.strict,
                           .field = tool.field,
                           .input = ToInputKind(tool),
                           .input_grammar = tool.input_grammar});
  }
  grammar::Compiler& compiler = ShowsMarks(request) ? *marks_compiler_ : *compiler_;
  return compiler.Compile(grammar::Compiler::Recipe{
      .key = "reply " + output::KeyOf(rules),
      .make = [&] { return output::MakeReplyGrammar(rules, compiler.options()); },
      .is_open = output == nullptr && !rules.must_call});
}

Result<std::vector<TokenId>> LocalProvider::EncodePrefix(const CompletionRequest& request) const {
  if (!request.more_prompts.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "provider.local",
                     "Invalid value for 'prompt': one prompt has one prefix; there are several.",
                     "prompt");
  }
  KVGATE_TRY(EncodedPrompt prompt, Encode(request.prompt, request));
  prompt.tokens.resize(prompt.num_prefix_tokens);
  const auto context = static_cast<size_t>(prompt_tokens_max());
  if (prompt.tokens.size() > context) {
    return dialect::form::ContextLengthError(
        request.dialect,
        {.num_tokens = static_cast<int64_t>(prompt.tokens.size()),
         .tokens_max = static_cast<int64_t>(context)},
        std::string(PromptField(request, 0)));
  }
  return std::move(prompt.tokens);
}

bool LocalProvider::Compiles(const CompletionRequest& request) {
  return request.output.kind != dialect::form::OutputKind::kAnyText ||
         (request.dialect != Dialect::kCompletions && LooksForCalls(request));
}

bool LocalProvider::LooksForCalls(const CompletionRequest& request) {
  return !request.tools.empty() && request.tool_choice.mode != dialect::form::ToolMode::kNone;
}

bool LocalProvider::ShowsMarks(const CompletionRequest& request) const {
  if (!family_.control_marks) return false;
  return LooksForCalls(request) || family_.shape != output::ReplyShape::kTags ||
         family_.reasoning.open != "<think>";
}

std::unique_ptr<EventStream> LocalProvider::Parse(std::unique_ptr<EventStream> stream,
                                                  const EncodedPrompt& prompt,
                                                  const CompletionRequest& request) const {
  ParsedStreamOptions options{
      .parser = {.family = family_.name,
                 .calls = LooksForCalls(request),
                 .tools = {},
                 // If the request supplies the beginning of the answer, its text has begun too.
                 .prompt_tail = request.answer_prefix.empty() ? std::string_view(prompt.tail)
                                                              : std::string_view()},
      .id_prefix = request.dialect == Dialect::kMessages ? "toolu_" : "call_",
      .id_length = family_.id_length,
      .parallel = request.tool_choice.parallel,
      .namer = dialect::form::CallNamer(request.tools)};
  for (const dialect::form::Tool& tool : request.tools)
    options.parser.tools.push_back(ToShape(tool));
  return ParseStream(std::move(stream), options);
}

Result<int64_t> LocalProvider::CountTokens(const CompletionRequest& request) const {
  KVGATE_TRY(const EncodedPrompt prompt, Encode(request.prompt, request));
  return static_cast<int64_t>(prompt.tokens.size());
}

void LocalProvider::PinToBreakpoint(const EncodedPrompt& prompt, const RunArgs& args) const {
  if (prompt.num_fixed_tokens == 0) return;
  const auto end = prompt.tokens.begin() + static_cast<std::ptrdiff_t>(prompt.num_fixed_tokens);
  parts_.engine.Pin(
      {.tokens = {prompt.tokens.begin(), end},
       .cache_salt = args.tenant,
       .priority = 1,
       .is_hint = true,
       .until = std::chrono::steady_clock::now() + std::chrono::seconds(prompt.fixed_ttl_seconds)});
}

Result<std::unique_ptr<EventStream>> LocalProvider::Run(const RunArgs& args) const {
  const CompletionRequest& request = args.request;
  KVGATE_TRY_VOID(CheckLogitBias(request));
  KVGATE_TRY(const std::vector<EncodedPrompt> prompts, EncodeAll(args));
  for (const EncodedPrompt& prompt : prompts) {
    KVGATE_TRY_VOID(
        CheckPromptTokens(prompt.tokens.size(), args.prompt_tokens_max, request.dialect));
  }
  KVGATE_TRY(const auto grammar, CompileOutput(request, prompts.front().tail));
  PinToBreakpoint(prompts.front(), args);
  std::vector<std::string> stops = request.stop;
  // A request that ignores the end of generation also ignores the end of a turn.
  if (request.dialect != Dialect::kCompletions && !request.ignore_eos) {
    for (const std::string& stop : parts_.chat_format->stop_strings()) stops.push_back(stop);
  }
  const bool is_chat = request.dialect != Dialect::kCompletions;
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
        .shows_control_tokens = is_chat && ShowsMarks(request),
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
         .usage = {.num_prompt_tokens = static_cast<int64_t>(prompt.tokens.size()),
                   .num_marked_tokens = static_cast<int64_t>(prompt.num_marked_tokens)},
         .caller_stops = request.stop,
         .pending_bytes_max = std::max(kPendingBytesMax / num_choices, kPendingBytesMin),
         .wake = args.wake});
    if (stream && is_chat) *stream = Parse(std::move(*stream), prompt, request);
    if (!stream) {  // requests that were submitted end with their streams
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
  // The name of a folder may contain dots.
  const std::string stem = file.extension() == ".gguf" ? file.stem().string() : std::string();
  for (std::string name :
       {std::string(general_name), stem, file.filename().string(), std::string("local")}) {
    const bool seen = std::find(names.begin(), names.end(), name) != names.end();
    if (!name.empty() && !seen) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace kvgate::local
