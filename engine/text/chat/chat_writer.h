// ChatWriter: builds a RenderedChat piece by piece and keeps markers apart from content.
#pragma once

#include <string_view>
#include <utility>

#include "engine/text/chat/chat_format.h"

namespace kvgate::chat {

class ChatWriter {
 public:
  // Appends the format's own text. Adjacent markers are joined, so that a control token may span
  // two calls.
  ChatWriter& Marker(std::string_view text) {
    const size_t begin = chat_.text.size();
    chat_.text.append(text);
    if (!chat_.markers.empty() && chat_.markers.back().end == begin) {
      chat_.markers.back().end = chat_.text.size();
    } else if (!text.empty()) {
      chat_.markers.push_back({.begin = begin, .end = chat_.text.size()});
    }
    return *this;
  }
  // Appends text from a message, in which no control tokens are recognised.
  ChatWriter& Content(std::string_view text) {
    chat_.text.append(text);
    return *this;
  }
  void EndMessage() { chat_.message_ends.push_back(chat_.text.size()); }
  RenderedChat Finish() && { return std::move(chat_); }

 private:
  RenderedChat chat_;
};

}  // namespace kvgate::chat
