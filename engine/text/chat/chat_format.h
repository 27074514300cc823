// ChatFormat: renders a conversation as the text a model was trained on, using the model's own
// template (template_format.h) or a named built-in. The format of a model is chosen once, at load.
//
// A rendering records which bytes are the format's own (markers) and which came with the messages.
// TokenizeChat therefore encodes "<|im_end|>" in a message as plain characters, which cannot close
// a turn. Markers that are plain text even to the model ("[INST]", "user:") have no such
// pin. Thread-safe.
//
// The end of a message is the length of the longest common prefix of two renderings: the messages
// up to and including it, without the opening of an answer, and the whole conversation. So the text
// before an end is the same whatever follows. Most formats only append, and then it is where the
// message's text ends. If a template rewrites history (drops old thinking, moves the tools), it may
// be earlier, and the ends need not ascend. If a template refuses messages that stop there, the
// rendering with one more user message is used instead; the end is 0 if that is refused too.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/text/jinja/value/data.h"
#include "engine/text/tokenizer/tokenizer.h"

namespace kvgate::chat {

struct ChatMessage {
  std::string role;  // "system" (or "developer", a synonym), "user", "assistant", "tool"
  std::string content;
  // Further fields that templates may read: tool_calls, name, reasoning_content.
  jinja::value::Data::Dict more = {};
  // Parts of the content that count as the format's own; ascending. Only template formats use them.
  std::vector<jinja::value::Data::Part> markers = {};
  bool no_content = false;  // templates see none instead of the (empty) content
};

struct ChatRequest {
  std::span<const ChatMessage> messages;
  const jinja::value::Data* tools = nullptr;  // a list; null: no tools are offered
  const jinja::value::Data::Dict* arguments =
      nullptr;  // template variables, such as enable_thinking
  // The indices, ascending, of the messages whose ends are wanted; absent: all. Each may cost a
  // rendering.
  std::optional<std::span<const size_t>> wanted_ends = {};
};

struct RenderedChat {
  std::string text = {};
  // The text offset of the end of each wanted message.
  std::vector<size_t> message_ends = {};
  // The parts of the text that the format wrote. Control tokens are recognised only there.
  std::vector<tokenizer::TextRange> markers = {};
  // From the first byte that came from the tools to the end of the last one; 0 if there is none.
  size_t tools_begin = 0;
  size_t tools_end = 0;
};

class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  virtual std::string_view name() const = 0;
  // The source of the template; empty for a built-in, which supports plain turns only.
  virtual std::string_view source() const { return {}; }
  // Texts that end an assistant's turn, besides the model's own end tokens: "<|im_end|>".
  virtual std::span<const std::string> stop_strings() const = 0;
  // The text ends with the opening of an assistant turn. kInvalidArgument names the field at fault:
  // "messages" (empty, or refused by the template) or "messages[i].role" (unknown, or out of the
  // format's order). kUnsupported: a built-in format was given "tools" or "chat_template_kwargs".
  virtual Result<RenderedChat> Render(const ChatRequest& request) const = 0;
};

// Names: "chatml", "llama2", "llama3", "plain". kNotFound: the error lists them.
Result<std::unique_ptr<ChatFormat>> MakeChatFormat(std::string_view name);
// Returns the built-in format that matches a model's own chat template, recognised by its markers
// ("<|im_start|>", "<|start_header_id|>", "[INST]"), or an empty name if there is none.
std::string_view RecogniseChatFormat(std::string_view chat_template);

struct TokenizedChat {
  std::vector<TokenId> tokens = {};
  // For each wanted message, the number of tokens that end at or before its end, including BOS.
  std::vector<size_t> message_ends = {};
  size_t tools_begin = 0;  // the same for the tools; 0: there are no tools
  size_t tools_end = 0;
};

// Returns the tokens of the prompt. If the model wants BOS (adds_bos), it is first and appears
// once, whether or not the format writes it. EOS is never added, because the assistant's turn is
// open.
TokenizedChat TokenizeChat(const tokenizer::Tokenizer& tokenizer, const RenderedChat& chat);

}  // namespace kvgate::chat
