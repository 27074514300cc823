#include "engine/text/chat/chat_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "engine/text/chat/chat_writer.h"

namespace kvgate::chat {
namespace {

Error BadMessage(size_t index, std::string detail) {
  return MakeError(ErrorCode::kInvalidArgument, "chat", std::move(detail),
                   fmt::format("messages[{}].role", index));
}

// "developer" is OpenAI's newer name for the same instructions.
std::string_view CanonicalRole(std::string_view role) {
  return role == "developer" ? "system" : role;
}

Result<void> CheckRoles(std::span<const ChatMessage> messages, std::string_view format) {
  if (messages.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "chat", "a chat needs at least one message",
                     "messages");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string_view role = CanonicalRole(messages[i].role);
    if (role == "system" || role == "user" || role == "assistant" || role == "tool") continue;
    return BadMessage(i, fmt::format("the role '{}' is not known to the chat format '{}'; known "
                                     "are system, developer, user, assistant and tool",
                                     messages[i].role, format));
  }
  return {};
}

// Fails for features that only a model's own template supports.
Result<void> CheckPlain(const ChatRequest& request, std::string_view format) {
  if (request.tools != nullptr) {
    return MakeError(ErrorCode::kUnsupported, "chat",
                     fmt::format("the chat format '{}' has no place for tools", format), "tools");
  }
  if (request.arguments != nullptr && !request.arguments->empty()) {
    return MakeError(ErrorCode::kUnsupported, "chat",
                     fmt::format("the chat format '{}' takes no arguments", format),
                     "chat_template_kwargs");
  }
  return {};
}

// Keeps only the ends that are wanted.
RenderedChat Finish(ChatWriter writer, const ChatRequest& request) {
  RenderedChat chat = std::move(writer).Finish();
  if (!request.wanted_ends) return chat;
  std::vector<size_t> ends;
  for (const size_t index : *request.wanted_ends) ends.push_back(chat.message_ends[index]);
  chat.message_ends = std::move(ends);
  return chat;
}

// Strips the blanks that Jinja's `trim` does; the llama templates apply it to content.
std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// <|im_start|>role\ncontent<|im_end|>\n
class ChatMl final : public ChatFormat {
 public:
  std::string_view name() const override { return "chatml"; }
  std::span<const std::string> stop_strings() const override { return stops_; }
  Result<RenderedChat> Render(const ChatRequest& request) const override {
    const std::span messages = request.messages;
    KVGATE_TRY_VOID(CheckPlain(request, name()));
    KVGATE_TRY_VOID(CheckRoles(messages, name()));
    ChatWriter writer;
    for (const ChatMessage& message : messages) {
      writer.Marker("<|im_start|>").Marker(CanonicalRole(message.role)).Marker("\n");
      writer.Content(message.content);
      writer.Marker("<|im_end|>\n").EndMessage();
    }
    writer.Marker("<|im_start|>assistant\n");
    return Finish(std::move(writer), request);
  }

 private:
  std::array<std::string, 1> stops_ = {"<|im_end|>"};
};

// <|start_header_id|>role<|end_header_id|>\n\ncontent<|eot_id|>, after one <|begin_of_text|>.
class Llama3 final : public ChatFormat {
 public:
  std::string_view name() const override { return "llama3"; }
  std::span<const std::string> stop_strings() const override { return stops_; }
  Result<RenderedChat> Render(const ChatRequest& request) const override {
    const std::span messages = request.messages;
    KVGATE_TRY_VOID(CheckPlain(request, name()));
    KVGATE_TRY_VOID(CheckRoles(messages, name()));
    ChatWriter writer;
    writer.Marker("<|begin_of_text|>");
    for (const ChatMessage& message : messages) {
      const std::string_view role = CanonicalRole(message.role);
      // Tool results have the role of the environment that the tool ran in.
      writer.Marker("<|start_header_id|>").Marker(role == "tool" ? "ipython" : role);
      writer.Marker("<|end_header_id|>\n\n").Content(Trim(message.content));
      writer.Marker("<|eot_id|>").EndMessage();
    }
    writer.Marker("<|start_header_id|>assistant<|end_header_id|>\n\n");
    return Finish(std::move(writer), request);
  }

 private:
  std::array<std::string, 1> stops_ = {"<|eot_id|>"};
};

// <s>[INST] <<SYS>>\nsystem\n<</SYS>>\n\nuser [/INST] assistant </s>. The system text is inside the
// first user turn, and user and assistant turns alternate.
class Llama2 final : public ChatFormat {
 public:
  std::string_view name() const override { return "llama2"; }
  std::span<const std::string> stop_strings() const override { return stops_; }
  Result<RenderedChat> Render(const ChatRequest& request) const override {
    const std::span messages = request.messages;
    KVGATE_TRY_VOID(CheckPlain(request, name()));
    KVGATE_TRY_VOID(CheckOrder(messages));
    ChatWriter writer;
    for (size_t i = 0; i < messages.size(); ++i) {
      const std::string_view role = CanonicalRole(messages[i].role);
      const std::string_view content = Trim(messages[i].content);
      if (role == "system") {
        writer.Marker("<s>[INST] <<SYS>>\n").Content(content).Marker("\n<</SYS>>\n\n");
      } else if (role == "user") {
        // After a system text the turn is already open.
        if (i == 0 || CanonicalRole(messages[i - 1].role) != "system") writer.Marker("<s>[INST] ");
        writer.Content(content).Marker(" [/INST]");
      } else {
        writer.Marker(" ").Content(content).Marker(" </s>");
      }
      writer.EndMessage();
    }
    return Finish(std::move(writer), request);
  }

 private:
  Result<void> CheckOrder(std::span<const ChatMessage> messages) const {
    KVGATE_TRY_VOID(CheckRoles(messages, name()));
    const size_t first = CanonicalRole(messages[0].role) == "system" ? 1 : 0;
    for (size_t i = first; i < messages.size(); ++i) {
      const std::string_view wanted = (i - first) % 2 == 0 ? "user" : "assistant";
      if (messages[i].role == wanted) continue;
      return BadMessage(i, fmt::format("the chat format 'llama2' wants the role '{}' here, not "
                                       "'{}': an optional system message, then user and "
                                       "assistant in turn",
                                       wanted, messages[i].role));
    }
    if (CanonicalRole(messages.back().role) == "user") return {};
    return BadMessage(messages.size() - 1,
                      "the chat format 'llama2' wants a user message last: the answer follows it");
  }
  std::array<std::string, 1> stops_ = {"</s>"};
};

// role: content\n, for models without chat tokens.
class Plain final : public ChatFormat {
 public:
  std::string_view name() const override { return "plain"; }
  std::span<const std::string> stop_strings() const override { return stops_; }
  Result<RenderedChat> Render(const ChatRequest& request) const override {
    const std::span messages = request.messages;
    KVGATE_TRY_VOID(CheckPlain(request, name()));
    KVGATE_TRY_VOID(CheckRoles(messages, name()));
    ChatWriter writer;
    for (const ChatMessage& message : messages) {
      writer.Marker(CanonicalRole(message.role)).Marker(": ").Content(message.content);
      writer.Marker("\n").EndMessage();
    }
    // No trailing space, because the model generates it as part of its first word.
    writer.Marker("assistant:");
    return Finish(std::move(writer), request);
  }

 private:
  // A model without an end token would continue with the next turn.
  std::array<std::string, 3> stops_ = {"\nuser:", "\nsystem:", "\ntool:"};
};

}  // namespace

Result<std::unique_ptr<ChatFormat>> MakeChatFormat(std::string_view name) {
  if (name == "chatml") return std::unique_ptr<ChatFormat>(std::make_unique<ChatMl>());
  if (name == "llama2") return std::unique_ptr<ChatFormat>(std::make_unique<Llama2>());
  if (name == "llama3") return std::unique_ptr<ChatFormat>(std::make_unique<Llama3>());
  if (name == "plain") return std::unique_ptr<ChatFormat>(std::make_unique<Plain>());
  return MakeError(ErrorCode::kNotFound, "chat",
                   fmt::format("there is no chat format '{}'; there are chatml, llama2, llama3 "
                               "and plain",
                               name));
}

std::string_view RecogniseChatFormat(std::string_view chat_template) {
  const auto has = [&](std::string_view mark) {
    return chat_template.find(mark) != std::string_view::npos;
  };
  if (has("<|im_start|>")) return "chatml";
  if (has("<|start_header_id|>")) return "llama3";
  if (has("[INST]")) return "llama2";
  return {};
}

TokenizedChat TokenizeChat(const tokenizer::Tokenizer& tokenizer, const RenderedChat& chat) {
  // The tokenizer requires ascending offsets, but the ends need not ascend.
  std::vector<size_t> places = chat.message_ends;
  places.push_back(chat.tools_begin);
  places.push_back(chat.tools_end);
  std::vector<size_t> order(places.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return places[a] < places[b]; });
  std::vector<size_t> offsets;
  for (const size_t index : order) offsets.push_back(places[index]);
  tokenizer::MarkedTokens encoded =
      tokenizer.EncodeMarked({.text = chat.text, .markers = chat.markers, .offsets = offsets});
  TokenizedChat tokenized = {.tokens = std::move(encoded.tokens)};
  const bool has_bos = !tokenized.tokens.empty() && tokenized.tokens.front() == tokenizer.bos();
  const bool adds_bos = tokenizer.adds_bos() && !has_bos;
  if (adds_bos) tokenized.tokens.insert(tokenized.tokens.begin(), *tokenizer.bos());
  for (size_t i = 0; i < order.size(); ++i) {
    places[order[i]] = encoded.offsets[i] + (adds_bos ? 1 : 0);
  }
  tokenized.tools_end = chat.tools_end == 0 ? 0 : places.back();
  places.pop_back();
  tokenized.tools_begin = chat.tools_end == 0 ? 0 : places.back();
  places.pop_back();
  tokenized.message_ends = std::move(places);
  return tokenized;
}

}  // namespace kvgate::chat
