// ChatFormat: a conversation as the text a model was trained on: the model's own template
// (template_format.h) or a named built-in. Which one a model gets is decided once, at load.
//
// A rendering says which of its bytes are the format's own (markers) and which came with the
// messages. Tokenised by TokenizeChat, "<|im_end|>" in a message is plain characters and cannot
// close a turn. Marks that are plain text to the model itself ("[INST]", "user:") have no such
// protection. Thread-safe.
//
// Where a message ends: at the end of the longest common prefix of the rendering of the messages up
// to it, without the opening of an answer, and of the whole rendering. So what stands before it is
// the same whatever follows. Most formats only append, and then that is where its text ends; where
// a template rewrites history (drops old thinking, moves the tools) it may be earlier, and then the
// ends need not ascend. Of a template that refuses messages which stop there, the rendering with
// one more user message is taken instead; 0 where that is refused too.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/jinja/data.h"
#include "engine/text/tokenizer/tokenizer.h"

namespace kvgate::chat {

struct ChatMessage {
  std::string role;  // "system" (or "developer", the same), "user", "assistant", "tool"
  std::string content;
  // Further fields for templates that read them: tool_calls, name, reasoning_content.
  jinja::Data::Dict more = {};
  // Parts of the content that count as the format's own; ascending. Only templates read them.
  std::vector<jinja::Data::Part> markers = {};
  bool no_content = false;  // a template gets none instead of the (empty) content
};

struct ChatRequest {
  std::span<const ChatMessage> messages;
  const jinja::Data* tools = nullptr;            // a list; null: none are offered
  const jinja::Data::Dict* arguments = nullptr;  // variables of the template: enable_thinking
  // The messages whose ends are wanted, by index, ascending; absent: all. Each may cost a
  // rendering.
  std::optional<std::span<const size_t>> wanted_ends = {};
};

struct RenderedChat {
  std::string text = {};
  // Text offset where each wanted message ends.
  std::vector<size_t> message_ends = {};
  // The parts of the text that the format wrote; only there are control tokens meant.
  std::vector<tokenizer::TextRange> markers = {};
  // Behind the last byte that came from the tools; 0: none did.
  size_t tools_end = 0;
};

class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  virtual std::string_view name() const = 0;
  // The template as it is written; empty: a built-in, which knows plain turns alone.
  virtual std::string_view source() const { return {}; }
  // What ends an assistant's turn, beside the model's own end tokens: "<|im_end|>".
  virtual std::span<const std::string> stop_strings() const = 0;
  // With the opening of an assistant turn at the end. kInvalidArgument: the field at fault is
  // named, "messages" (empty, or refused by the template) or "messages[i].role" (unknown, or out of
  // the format's order). kUnsupported: "tools" or "chat_template_kwargs" of a built-in format.
  virtual Result<RenderedChat> Render(const ChatRequest& request) const = 0;
};

// "chatml", "llama2", "llama3", "plain"; kNotFound lists them.
Result<std::unique_ptr<ChatFormat>> MakeChatFormat(std::string_view name);
// The built-in format that a model's own chat template stands for, by its marks ("<|im_start|>",
// "<|start_header_id|>", "[INST]"); empty when none is recognised.
std::string_view RecogniseChatFormat(std::string_view chat_template);

struct TokenizedChat {
  std::vector<TokenId> tokens = {};
  // Per wanted message: how many tokens end at or before its end, BOS included.
  std::vector<size_t> message_ends = {};
  size_t tools_end = 0;  // likewise; 0: there are no tools
};

// The prompt's tokens. BOS stands first where the model wants one (adds_bos), once, whether or not
// the format writes it; EOS is never added: the assistant's turn is open.
TokenizedChat TokenizeChat(const tokenizer::Tokenizer& tokenizer, const RenderedChat& chat);

}  // namespace kvgate::chat
