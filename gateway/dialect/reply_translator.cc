#include "gateway/dialect/reply_translator.h"

#include <utility>

#include "gateway/dialect/chat/chat_reply.h"
#include "gateway/dialect/gemini/gemini_reply.h"
#include "gateway/dialect/messages/messages_reply.h"
#include "gateway/dialect/reply/sse_reader.h"
#include "gateway/dialect/reply_encoders.h"
#include "gateway/dialect/responses/responses_reply.h"
#include "gateway/dialect/translate/reply_writer.h"

namespace kvgate::dialect {

using chat::MakeChatReply;
using messages::MakeMessagesReply;
using responses::MakeResponsesReply;
using translate::RawJson;
using translate::RawObject;
using translate::ReplyWriter;
using translate::ToError;
using translate::UpstreamReply;

namespace {

using form::Dialect;

constexpr std::string_view kDone = "[DONE]";

std::unique_ptr<UpstreamReply> MakeUpstreamReply(Dialect dialect, ReplyWriter& writer) {
  if (dialect == Dialect::kGemini) return gemini::MakeGeminiReply(writer);
  if (dialect == Dialect::kMessages) return MakeMessagesReply(writer);
  return dialect == Dialect::kResponses ? MakeResponsesReply(writer) : MakeChatReply(writer);
}

class Translator final : public ReplyTranslator, private reply::SseSink {
 public:
  explicit Translator(Options options)
      : options_(std::move(options)),
        writer_({.reply = options_.reply,
                 .namer = form::CallNamer(options_.tools),
                 .make_encoder = MakeReplyEncoder,
                 .answer_bytes_max = options_.answer_bytes_max}),
        reply_(MakeUpstreamReply(options_.from, writer_)),
        sse_(*this) {}

  void Feed(std::string_view bytes, std::string& out) override {
    writer_.SetOutput(out);
    if (options_.events) {
      sse_.Feed(bytes);
    } else {
      OnData(bytes);
    }
  }

  End Finish(std::string& out) override {
    writer_.SetOutput(out);
    if (options_.events) {
      reply_->OnStreamEnd();
    } else if (!writer_.ended()) {
      ReadDocument();
    }
    if (writer_.failure()) {
      error_ = ToError(*writer_.failure());
      return End::kFailed;
    }
    if (writer_.ended()) return End::kWhole;
    error_ = MakeError(ErrorCode::kUnavailable, "translate",
                       "The upstream's events broke off before the last one.");
    return End::kCut;
  }

  const Error& error() const override { return error_; }

 private:
  void OnData(std::string_view piece) override {
    if (writer_.ended()) return;
    const size_t bytes_max = options_.events ? options_.event_bytes_max : options_.answer_bytes_max;
    if (piece.size() > bytes_max - document_.size()) {
      Refuse("The upstream sent more than can be translated.");
      document_.clear();
      return;
    }
    document_ += piece;
  }

  void OnEventEnd() override {
    if (!writer_.ended()) {
      if (document_ == kDone) {
        reply_->OnStreamEnd();
      } else {
        ReadDocument();
      }
    }
    document_.clear();
  }

  void ReadDocument() {
    const Result<RawJson> json = RawJson::Parse(document_);
    if (!json || !json->is_object()) {
      Refuse("The upstream sent something that is not JSON.");
    } else if (options_.events) {
      reply_->OnEvent(RawObject(*json));
    } else {
      reply_->OnBody(RawObject(*json));
    }
  }

  void Refuse(std::string message) {
    writer_.Fail({.status = 502, .type = "api_error", .message = std::move(message)});
  }

  const Options options_;
  ReplyWriter writer_;
  const std::unique_ptr<UpstreamReply> reply_;
  reply::SseReader sse_;
  std::string document_;  // of the event or the answer so far
  Error error_;
};

}  // namespace

std::unique_ptr<ReplyTranslator> ReplyTranslator::Make(Options options) {
  return std::make_unique<Translator>(std::move(options));
}

}  // namespace kvgate::dialect
