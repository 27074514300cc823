// ChatFormat: a conversation as the text a model was trained on.
// Named built-in formats; which one a model gets is decided once, at load, and logged.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::chat {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
};

struct RenderedChat {
  std::string text;
  // Text offset where each message ends: the segment boundaries.
  std::vector<size_t> message_ends;
};

class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  virtual std::string_view name() const = 0;
  // What ends an assistant's turn, beside the model's own end tokens: "<|im_end|>".
  virtual std::span<const std::string> stop_strings() const = 0;
  // With the opening of an assistant turn at the end. kInvalidArgument names messages[i].role.
  virtual Result<RenderedChat> Render(std::span<const ChatMessage> messages) const = 0;
};

// "chatml", "llama2", "llama3", "plain"; kNotFound lists them.
Result<std::unique_ptr<ChatFormat>> MakeChatFormat(std::string_view name);
// The built-in format that a model's own chat template stands for, by its marks ("<|im_start|>",
// "<|start_header_id|>", "[INST]"); empty when none is recognised.
std::string_view RecogniseChatFormat(std::string_view chat_template);

}  // namespace kvgate::chat
