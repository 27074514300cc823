// Fuzzes the Responses dialect: its decoder, and the prompt that its items make.
#include "gateway/dialect/responses/responses.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gateway/dialect/responses/prompt_builder.h"
#include "tests/fuzz/decoder_fuzz.h"

namespace {

using namespace kvgate;           // NOLINT
using namespace kvgate::dialect;  // NOLINT

// Checks that an item has the same meaning after it is stored and read again.
void CheckKept(const responses::ResponsesRequest& request, const form::DecodeLimits& limits) {
  std::vector<responses::ResponsesItem> items;
  for (const responses::ResponsesItem& item : request.input) {
    if (!item.is_reference) items.push_back(item);
  }
  const auto again = responses::ParseItems(responses::ToArray(items));
  if (!again || again->size() != items.size()) std::abort();
  responses::PromptBuilder first(limits);
  responses::PromptBuilder second(limits);
  const Result<void> built = first.Add(items, "input");
  if (second.Add(*again, "input").has_value() != built.has_value()) std::abort();
  if (!built && built.error().field.empty()) std::abort();
  if (built && first.Take() != second.Take()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const form::DecodeLimits limits{.stop_strings_max = 4, .stop_string_bytes_max = 16};
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  auto decoded =
      responses::DecodeResponses({.body = body, .request_id = "0123456789abcdef01234567"}, limits);
  if (decoded) {
    CheckKept(*decoded, limits);
    CheckDecoded(std::move(decoded->request), limits);
  } else {
    CheckDecoded(decoded.error(), limits);
  }
  if (const auto conversation =
          responses::DecodeConversation({.body = body, .request_id = ""}, limits);
      !conversation) {
    CheckDecoded(conversation.error(), limits);
  }
  return 0;
}
