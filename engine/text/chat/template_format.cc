#include "engine/text/chat/template_format.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>

#include "base/digest.h"
#include "engine/text/chat/end_memo.h"
#include "engine/text/jinja/template.h"

namespace kvgate::chat {
namespace {

using jinja::Template;
using jinja::value::Data;

bool IsKnownRole(std::string_view role) {
  return role == "system" || role == "developer" || role == "user" || role == "assistant" ||
         role == "tool";
}

// Hashes a tree of Data. Each part is hashed with its kind and size, so that different trees
// differ.
class Hasher {
 public:
  explicit Hasher(uint64_t seed) : seed_(seed) {}

  void Text(std::string_view text) {
    Number(text.size());
    Mix(Xxh3(std::as_bytes(std::span(text)), seed_));
  }
  void Number(uint64_t number) { Mix({number, 0}); }
  void Value(const Data& data) {
    Number(data.value().index());
    std::visit([this](const auto& value) { Add(value); }, data.value());
  }
  ConversationHash state() const { return {state_.first, state_.second}; }

 private:
  using Pair = std::pair<uint64_t, uint64_t>;

  void Mix(Pair next) {
    const std::array<uint64_t, 4> words = {state_.first, state_.second, next.first, next.second};
    state_ = Xxh3(std::as_bytes(std::span(words)), seed_);
  }
  void Add(std::monostate) {}
  void Add(bool value) { Number(value ? 1 : 0); }
  void Add(int64_t value) { Number(static_cast<uint64_t>(value)); }
  void Add(double value) { Mix(Xxh3(std::as_bytes(std::span(&value, 1)), seed_)); }
  void Add(const std::string& value) { Text(value); }
  void Add(const Data::BigInteger& value) { Text(value.digits); }
  void Add(const Data::Borrowed& value) { Text(value.text); }
  void Add(const Data::Marked& value) { Text(value.text); }
  void Add(const Data::List& list) {
    Number(list.size());
    for (const Data& item : list) Value(item);
  }
  void Add(const Data::Dict& dict) {
    Number(dict.size());
    for (const auto& [key, value] : dict) {
      Text(key);
      Value(value);
    }
  }

  uint64_t seed_;
  Pair state_ = {0, 0};
};

class TemplateFormat final : public ChatFormat {
 public:
  TemplateFormat(const TemplateFormatOptions& options, std::unique_ptr<const Template> main,
                 std::unique_ptr<const Template> tool_use)
      : name_(options.name),
        main_(std::move(main)),
        tool_use_(std::move(tool_use)),
        source_(options.source + options.tool_use_source.value_or("")),
        knows_developer_(options.source.find("developer") != std::string::npos) {
    if (options.bos_token) bos_token_ = Data::Trusted(*options.bos_token);
    if (options.eos_token) eos_token_ = Data::Trusted(*options.eos_token);
  }

  std::string_view name() const override { return name_; }
  std::string_view source() const override { return source_; }
  std::span<const std::string> stop_strings() const override { return {}; }
  Result<RenderedChat> Render(const ChatRequest& request) const override;

 private:
  // A prefix of the messages, with or without the opening of an answer.
  struct Span {
    const Data* messages;
    bool opens_answer;
  };
  const Template& TemplateOf(const ChatRequest& request) const {
    return request.tools != nullptr && tool_use_ != nullptr ? *tool_use_ : *main_;
  }
  Data ToData(const ChatMessage& message) const;
  static Data ContentOf(const ChatMessage& message);
  Result<Template::Rendering> RenderSpan(const ChatRequest& request, const Span& span) const;
  Result<EndMemo::End> FindEnd(const ChatRequest& request, size_t index,
                               std::string_view whole) const;
  Result<void> FindEnds(const ChatRequest& request, RenderedChat& chat) const;
  std::vector<ConversationHash> HashPrefixes(const ChatRequest& request) const;
  Data Messages(const ChatRequest& request, size_t count) const;

  std::string name_;
  std::unique_ptr<const Template> main_;
  std::unique_ptr<const Template> tool_use_;  // may be null
  std::string source_;                        // source of both templates
  bool knows_developer_;
  std::optional<Data> bos_token_;
  std::optional<Data> eos_token_;
  uint64_t seed_ = RandomSeed();
  mutable EndMemo memo_{EndMemo::Options{}};
};

Data TemplateFormat::ToData(const ChatMessage& message) const {
  // "developer" is OpenAI's newer name for the same instructions.
  std::string role = message.role;
  if (role == "developer" && !knows_developer_) role = "system";
  Data::Dict fields;
  fields.reserve(2 + message.more.size());
  fields.emplace_back("role", IsKnownRole(role) ? Data::Trusted(std::move(role)) : Data(role));
  fields.emplace_back("content", ContentOf(message));
  for (const auto& field : message.more) fields.push_back(field);
  return fields;
}

Data TemplateFormat::ContentOf(const ChatMessage& message) {
  if (message.no_content) return {};
  if (message.markers.empty()) return Data::Borrowed{message.content};
  return Data::Marked{.text = message.content, .own = message.markers};
}

Data TemplateFormat::Messages(const ChatRequest& request, size_t count) const {
  Data::List messages;
  messages.reserve(count);
  for (const ChatMessage& message : request.messages.first(count)) {
    messages.push_back(ToData(message));
  }
  return messages;
}

Result<Template::Rendering> TemplateFormat::RenderSpan(const ChatRequest& request,
                                                       const Span& span) const {
  const Data none;
  const Data opens_answer(span.opens_answer);
  std::vector<Template::Variable> variables;
  if (request.arguments != nullptr) {
    for (const auto& [name, value] : *request.arguments) {
      variables.push_back({.name = name, .value = &value});
    }
  }
  variables.push_back({.name = "messages", .value = span.messages});
  variables.push_back({.name = "tools",
                       .value = request.tools != nullptr ? request.tools : &none,
                       .origin = jinja::value::Origin::kTools});
  variables.push_back({.name = "documents", .value = &none});
  variables.push_back({.name = "add_generation_prompt", .value = &opens_answer});
  if (bos_token_) variables.push_back({.name = "bos_token", .value = &*bos_token_});
  if (eos_token_) variables.push_back({.name = "eos_token", .value = &*eos_token_});
  auto rendered = TemplateOf(request).Render({.variables = variables});
  if (rendered) return std::move(*rendered);
  const jinja::syntax::Failure& failure = rendered.error();
  // Messages that the template raises are for the caller; other errors include their location.
  const bool raised = failure.kind == jinja::syntax::Failure::Kind::kRaised;
  return MakeError(ErrorCode::kInvalidArgument, "chat",
                   raised
                       ? fmt::format("the chat template refuses the messages: {}", failure.message)
                       : fmt::format("the chat template cannot render the messages: {}",
                                     failure.ToString(name_)),
                   "messages");
}

std::vector<ConversationHash> TemplateFormat::HashPrefixes(const ChatRequest& request) const {
  Hasher hasher(seed_);
  hasher.Number(request.tools != nullptr ? 1 : 0);
  if (request.tools != nullptr) hasher.Value(*request.tools);
  if (request.arguments != nullptr) hasher.Value(Data(*request.arguments));
  std::vector<ConversationHash> chain;
  chain.reserve(request.messages.size());
  for (const ChatMessage& message : request.messages) {
    hasher.Text(message.role);
    hasher.Text(message.content);
    hasher.Number(message.no_content ? 1 : 0);
    hasher.Number(message.markers.size());
    hasher.Number(message.more.size());
    for (const auto& [name, value] : message.more) {
      hasher.Text(name);
      hasher.Value(value);
    }
    chain.push_back(hasher.state());
  }
  return chain;
}

Result<EndMemo::End> TemplateFormat::FindEnd(const ChatRequest& request, size_t index,
                                             std::string_view whole) const {
  const Data messages = Messages(request, index + 1);
  auto prefix = RenderSpan(request, {.messages = &messages, .opens_answer = false});
  if (!prefix) {
    // A template may refuse a conversation that stops here ("there is no user message"). Then the
    // same is rendered with one more user message, whose text no real message has.
    static const ChatMessage kSomeone = {.role = "user", .content = "\x01"};
    Data::List longer = std::get<Data::List>(messages.value());
    longer.push_back(ToData(kSomeone));
    const Data extended(std::move(longer));
    prefix = RenderSpan(request, {.messages = &extended, .opens_answer = false});
    if (!prefix) return EndMemo::End{};
  }
  const size_t offset = CommonPrefix(prefix->text, whole);
  return EndMemo::End{.offset = offset, .is_whole = offset == prefix->text.size()};
}

Result<void> TemplateFormat::FindEnds(const ChatRequest& request, RenderedChat& chat) const {
  std::vector<ConversationHash> chain = HashPrefixes(request);
  EndMemo::Ends ends = memo_.Find(chain, chat.text);
  const size_t num_wanted =
      request.wanted_ends ? request.wanted_ends->size() : request.messages.size();
  for (size_t i = 0; i < num_wanted; ++i) {
    const size_t index = request.wanted_ends ? (*request.wanted_ends)[i] : i;
    if (!ends[index]) {
      KVGATE_TRY(ends[index], FindEnd(request, index, chat.text));
    }
    chat.message_ends.push_back(ends[index]->offset);
  }
  memo_.Keep(std::move(chain), chat.text, std::move(ends));
  return {};
}

Result<RenderedChat> TemplateFormat::Render(const ChatRequest& request) const {
  if (request.messages.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "chat", "a chat needs at least one message",
                     "messages");
  }
  const Data messages = Messages(request, request.messages.size());
  KVGATE_TRY(Template::Rendering whole,
             RenderSpan(request, {.messages = &messages, .opens_answer = true}));
  RenderedChat chat{.text = std::move(whole.text)};
  size_t begin = 0;
  for (const Template::InputRange& input : whole.inputs) {
    if (input.begin > begin) chat.markers.push_back({.begin = begin, .end = input.begin});
    begin = input.end;
    if (input.origin == jinja::value::Origin::kTools) {
      if (chat.tools_end == 0) chat.tools_begin = input.begin;
      chat.tools_end = input.end;
    }
  }
  if (begin < chat.text.size()) chat.markers.push_back({.begin = begin, .end = chat.text.size()});
  KVGATE_TRY_VOID(FindEnds(request, chat));
  return chat;
}

Result<std::unique_ptr<const Template>> ParseSource(std::string_view name,
                                                    const std::string& source) {
  auto parsed = Template::Parse(source);
  if (parsed) return std::move(*parsed);
  return MakeError(ErrorCode::kInvalidArgument, "chat", parsed.error().ToString(name));
}

}  // namespace

Result<std::unique_ptr<ChatFormat>> MakeTemplateFormat(const TemplateFormatOptions& options) {
  KVGATE_TRY(auto main, ParseSource(options.name, options.source));
  std::unique_ptr<const Template> tool_use;
  if (options.tool_use_source) {
    KVGATE_TRY(tool_use, ParseSource(options.name + ".tool_use", *options.tool_use_source));
  }
  return std::unique_ptr<ChatFormat>(
      std::make_unique<TemplateFormat>(options, std::move(main), std::move(tool_use)));
}

}  // namespace kvgate::chat
