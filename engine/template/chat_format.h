// ChatFormat: a conversation as the text a model was trained on.
// Named built-in formats; which one a model gets is decided once, at load, and logged.
//
// A rendering says which of its bytes are the format's own (markers) and which came with the
// messages. Tokenised by TokenizeChat, "<|im_end|>" in a message is plain characters and cannot
// close a turn. Marks that are plain text to the model itself ("[INST]", "user:") have no such
// protection. Formats are stateless; thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "engine/tokenizer/tokenizer.h"

namespace kvgate::chat {

struct ChatMessage {
  std::string role;  // "system" (or "developer", the same), "user", "assistant", "tool"
  std::string content;
};

struct RenderedChat {
  std::string text;
  // Text offset where each message ends: the segment boundaries. Ascending, one per message.
  std::vector<size_t> message_ends;
  // The parts of the text that the format wrote; only there are control tokens meant.
  std::vector<tokenizer::TextRange> markers;
};

class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  virtual std::string_view name() const = 0;
  // What ends an assistant's turn, beside the model's own end tokens: "<|im_end|>".
  virtual std::span<const std::string> stop_strings() const = 0;
  // With the opening of an assistant turn at the end. kInvalidArgument: the field at fault is
  // named, "messages" (empty) or "messages[i].role" (unknown, or out of the format's order).
  virtual Result<RenderedChat> Render(std::span<const ChatMessage> messages) const = 0;
};

// "chatml", "llama2", "llama3", "plain"; kNotFound lists them.
Result<std::unique_ptr<ChatFormat>> MakeChatFormat(std::string_view name);
// The built-in format that a model's own chat template stands for, by its marks ("<|im_start|>",
// "<|start_header_id|>", "[INST]"); empty when none is recognised.
std::string_view RecogniseChatFormat(std::string_view chat_template);

struct TokenizedChat {
  std::vector<TokenId> tokens;
  // Per message: how many tokens belong to it and those before it, BOS included.
  std::vector<size_t> message_ends;
};

// The prompt's tokens. BOS stands first where the model wants one (adds_bos), once, whether or not
// the format writes it; EOS is never added: the assistant's turn is open.
TokenizedChat TokenizeChat(const tokenizer::Tokenizer& tokenizer, const RenderedChat& chat);

}  // namespace kvgate::chat
