#include "gateway/dialect/request_translator.h"

#include "gateway/dialect/chat/chat_request.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/gemini/gemini_request.h"
#include "gateway/dialect/messages/messages_request.h"
#include "gateway/dialect/responses/responses_request.h"
#include "gateway/dialect/translate/dialect_fields.h"
#include "gateway/dialect/translate/output_limit.h"

namespace kvgate::dialect {

using chat::ReadChatRequest;
using chat::WriteChatRequest;
using messages::ReadMessagesRequest;
using messages::WriteMessagesRequest;
using responses::ReadResponsesRequest;
using responses::ShapeOf;
using responses::WriteResponsesRequest;
using translate::BoundOutput;
using translate::CheckChoice;
using translate::OpeningOf;
using translate::RawJson;
using translate::RawObject;
using translate::RequestForm;
using translate::WrongShape;

namespace {

using form::Dialect;

std::string_view NameOf(Dialect dialect) {
  if (dialect == Dialect::kGemini) return "Gemini";
  if (dialect == Dialect::kMessages) return "Messages";
  return dialect == Dialect::kResponses ? "Responses" : "Chat Completions";
}

Result<void> Read(const TranslateRequestArgs& args, const RawObject& body, RequestForm& form) {
  const std::string_view target = NameOf(args.to);
  if (args.from == Dialect::kMessages) return ReadMessagesRequest(body, target, form);
  if (args.from == Dialect::kResponses) return ReadResponsesRequest(body, target, form);
  if (args.from == Dialect::kGemini) {
    return gemini::ReadGeminiRequest(body, target, {.model = args.model, .stream = args.stream},
                                     form);
  }
  return ReadChatRequest(body, target, form);
}

Result<std::string> Write(const TranslateRequestArgs& args, RequestForm& form) {
  if (args.to == Dialect::kMessages) return WriteMessagesRequest(args.target, form);
  if (args.to == Dialect::kResponses) return WriteResponsesRequest(args.target, form);
  if (args.to == Dialect::kGemini) return gemini::WriteGeminiRequest(form);
  return WriteChatRequest(args.target, form);
}

// Settings that only the engine has. Gemini's own command line sends topK with every request, so
// that it is left out where it has no place; what changes the kind of answer is refused.
Result<void> RefuseSamplers(const TranslateRequestArgs& args, RequestForm& form) {
  for (const translate::Sampler& each : form.samplers) {
    if (each.name != "top_k") {
      return translate::CannotSay(each.given.path, "this setting", NameOf(args.to));
    }
    form::AddLeftOut(each.name, form.left_out);
  }
  form.samplers.clear();
  return {};
}

// The bytes per token assumed for text and JSON, with a margin: providers' own counts are about
// four bytes per token, and estimates by other tokenizers were 15 to 20 percent too low.
constexpr double kBytesPerToken = 3.3;
// The maximum for an image whose size is unknown.
constexpr int64_t kMediaTokens = 1600;

bool IsMedia(const RawObject& object) {
  for (const std::string_view name : {"inlineData", "inline_data", "fileData", "file_data"}) {
    if (object[name]) return true;
  }
  const RawObject source(object["source"]);
  return source.String("type") == "base64" || source.String("type") == "url";
}

// Adds up the bytes of all texts and counts the media.
void Weigh(const RawJson& value, size_t& text_bytes, int64_t& num_media) {
  if (value.is_array()) {
    for (const RawJson& element : value.Elements()) Weigh(element, text_bytes, num_media);
  } else if (value.is_object()) {
    const RawObject object(value);
    if (IsMedia(object)) {
      ++num_media;
      return;
    }
    for (const auto& [name, member] : object.members()) {
      const bool is_sealed = name == "signature" || name == "thoughtSignature";
      if (name == "cache_control" || is_sealed) continue;
      Weigh(member, text_bytes, num_media);
      text_bytes += name == "type" || name == "text" || name == "role" ? 2 : name.size() + 3;
    }
  } else {
    text_bytes += value.text().size();
  }
}

}  // namespace

std::string_view PathOfDialect(Dialect dialect) {
  if (dialect == Dialect::kMessages) return "/v1/messages";
  return dialect == Dialect::kResponses ? "/v1/responses" : "/v1/chat/completions";
}

Result<TranslatedRequest> TranslateRequest(const TranslateRequestArgs& args) {
  KVGATE_TRY(const RawJson json, RawJson::Parse(args.body));
  if (!json.is_object()) {
    return MakeError(ErrorCode::kInvalidArgument, "translate", "The body must be a JSON object.");
  }
  const RawObject body(json);
  RequestForm form;
  KVGATE_TRY_VOID(Read(args, body, form));
  KVGATE_TRY_VOID(CheckChoice(form, NameOf(args.to)));
  BoundOutput(args.output, form);
  if (!args.target.samplers) KVGATE_TRY_VOID(RefuseSamplers(args, form));
  TranslatedRequest made{.path = args.to == Dialect::kGemini
                                     ? gemini::GeminiPath({.model = translate::Meant(form.model),
                                                           .stream = form.stream})
                                     : std::string(PathOfDialect(args.to)),
                         .stream = form.stream,
                         .include_usage = form.include_usage};
  if (args.from == Dialect::kGemini) made.thoughts = gemini::WantsThoughts(body);
  if (args.from == Dialect::kResponses) made.shape = ShapeOf(body);
  KVGATE_TRY(made.body, Write(args, form));
  made.tools = std::move(form.client_tools);
  if (!form.left_out.empty()) made.opening = OpeningOf(form);
  made.left_out = std::move(form.left_out);
  return made;
}

Result<int64_t> EstimateTokens(std::string_view body) {
  KVGATE_TRY(const RawJson json, RawJson::Parse(body));
  const RawObject object(json);
  const bool is_gemini = static_cast<bool>(object["contents"]);
  const std::string turns = is_gemini ? "contents" : "messages";
  if (!object[turns].is_array()) return WrongShape(turns, "must be an array");
  size_t text_bytes = 0;
  int64_t num_media = 0;
  for (const std::string_view name :
       {"tools", "system", "messages", "systemInstruction", "system_instruction", "contents"}) {
    Weigh(object[name], text_bytes, num_media);
  }
  return static_cast<int64_t>(static_cast<double>(text_bytes) / kBytesPerToken) +
         num_media * kMediaTokens + 1;
}

}  // namespace kvgate::dialect
