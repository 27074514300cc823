// Fuzzes translation: a request in all pairs of dialects, and an answer, whole or as events,
// divided at a point that the input chooses. For any input the output is JSON, or events that hold
// JSON.
#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gateway/dialect/form/errors.h"
#include "gateway/dialect/reply_translator.h"
#include "gateway/dialect/request_translator.h"
#include "gateway/dialect/translate/error_translator.h"

namespace kvgate::dialect {
namespace {

using form::Dialect;

constexpr Dialect kDialects[] = {Dialect::kChatCompletions, Dialect::kResponses, Dialect::kMessages,
                                 Dialect::kGemini};

void CheckJson(std::string_view text) {
  simdjson::dom::parser parser;
  if (parser.parse(text.data(), text.size(), true).error() != simdjson::SUCCESS) std::abort();
}

void Requests(std::string_view body) {
  for (const Dialect from : kDialects) {
    for (const Dialect to : kDialects) {
      if (from == to) continue;
      const TranslateRequestArgs args = {.from = from, .to = to, .body = body, .model = "m"};
      const auto made = TranslateRequest(args);
      if (made) {
        if (TranslateRequest(args)->body != made->body) std::abort();
      } else {
        CheckJson(form::EncodeError(made.error()));
      }
    }
  }
  if (const auto tokens = EstimateTokens(body); tokens && *tokens < 0) std::abort();
}

// Checks that lines of `data:` are JSON or the end breakpoint.
void CheckEvents(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) std::abort();
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (line.starts_with("data: ") && line != "data: [DONE]") CheckJson(line.substr(6));
  }
}

void Replies(std::string_view bytes, size_t at, bool events) {
  for (const Dialect from : kDialects) {
    for (const Dialect to : kDialects) {
      if (from == to) continue;
      for (const bool stream : {true, false}) {
        auto translator = ReplyTranslator::Make(
            {.from = from,
             .events = events,
             .reply = {.dialect = to, .request_id = "f", .stream = stream, .include_usage = true},
             .event_bytes_max = 4096,
             .answer_bytes_max = 16384});
        std::string out;
        translator->Feed(bytes.substr(0, at), out);
        translator->Feed(bytes.substr(at), out);
        const auto end = translator->Finish(out);
        if (stream) {
          CheckEvents(out);
        } else if (end == ReplyTranslator::End::kWhole) {
          CheckJson(out);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvgate::dialect

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvgate::dialect;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      Requests(bytes);
      break;
    case 1:
    case 2:
      Replies(bytes, bytes.empty() ? 0 : (data[0] * 7U) % bytes.size(), data[0] % 4 == 1);
      break;
    default:
      for (const Dialect to : kDialects) {
        const auto told =
            translate::TranslateError(translate::ReadErrorBody(400 + data[0], bytes), to, "f");
        CheckJson(told.body);
      }
  }
  return 0;
}
