#include "gateway/dialect/reply_encoders.h"

#include <utility>

#include "gateway/dialect/chat/chat_completions.h"
#include "gateway/dialect/completions/completions.h"
#include "gateway/dialect/gemini/gemini_encoder.h"
#include "gateway/dialect/messages/messages.h"
#include "gateway/dialect/responses/responses.h"

namespace kvgate::dialect {

using form::Dialect;

std::unique_ptr<reply::ReplyEncoder> MakeReplyEncoder(reply::ReplyOptions options) {
  switch (options.dialect) {
    case Dialect::kChatCompletions:
      return chat::MakeChatCompletionsEncoder(std::move(options));
    case Dialect::kCompletions:
      return completions::MakeCompletionsEncoder(std::move(options));
    case Dialect::kMessages:
      return messages::MakeMessagesEncoder(std::move(options));
    case Dialect::kResponses:
      return responses::MakeResponsesEncoder(std::move(options));
    case Dialect::kGemini:
      return gemini::MakeGeminiEncoder(std::move(options));
  }
  return nullptr;
}

}  // namespace kvgate::dialect
