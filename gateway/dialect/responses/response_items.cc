#include "gateway/dialect/responses/response_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/base64.h"
#include "base/utf8.h"
#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/form/json_value.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::dialect::responses {

using form::JsonArray;
using form::JsonElement;
using form::JsonWriter;
using form::RangeError;
using form::ToJson;

namespace {

constexpr std::string_view kOurs = "kv";
constexpr size_t kRequestIdBytes = 24;
constexpr int kPageDefault = 20;
constexpr int kPageMax = 100;

// The prefix of "encrypted" reasoning. It is the client's own answer, so nothing is hidden from it;
// the encoding only keeps the text in one piece.
constexpr std::string_view kSealed = "kvgate-reasoning-1:";

bool IsRequestId(std::string_view text) {
  return text.size() == kRequestIdBytes && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Result<size_t> PageLimit(std::string_view limit) {
  if (limit.empty()) return size_t{kPageDefault};
  int number = 0;
  const auto [end, problem] = std::from_chars(limit.data(), limit.data() + limit.size(), number);
  if (problem != std::errc() || end != limit.data() + limit.size() || number < 1 ||
      number > kPageMax) {
    return RangeError("limit", fmt::format("must be an integer between 1 and {}", kPageMax));
  }
  return static_cast<size_t>(number);
}

}  // namespace

std::string AnswerItemId(std::string_view type, std::string_view request_id, size_t index) {
  const std::string_view prefix = type == "function_call"      ? "fc"
                                  : type == "custom_tool_call" ? "ctc"
                                  : type == "reasoning"        ? "rs"
                                                               : "msg";
  return fmt::format("{}_{}{}_{}", prefix, kOurs, request_id, index);
}

std::string_view RequestOf(std::string_view id) {
  const size_t underscore = id.find('_');
  if (underscore == std::string_view::npos) return "";
  id.remove_prefix(underscore + 1);
  if (!id.starts_with(kOurs)) return "";
  id.remove_prefix(kOurs.size());
  id = id.substr(0, id.find('_'));
  return IsRequestId(id) ? id : "";
}

std::string SealReasoning(std::string_view text) {
  return std::string(kSealed) + EncodeBase64(text);
}

std::string OpenReasoning(std::string_view sealed) {
  if (!sealed.starts_with(kSealed)) return "";
  std::string text;
  DecodeBase64(sealed.substr(kSealed.size()), text);
  return IsValidUtf8(text) ? text : "";
}

Result<std::vector<ResponsesItem>> ParseItems(std::string_view array) {
  simdjson::dom::parser parser;
  JsonArray items;
  if (parser.parse(array.data(), array.size(), true).get(items) != simdjson::SUCCESS) {
    return MakeError(ErrorCode::kDataLoss, "protocol", "kept items are no JSON array");
  }
  std::vector<ResponsesItem> parsed;
  for (const JsonElement item : items) {
    std::string_view id;
    if (item["id"].get(id) != simdjson::SUCCESS) {
      return MakeError(ErrorCode::kDataLoss, "protocol", "a kept item has no id");
    }
    parsed.push_back({.id = std::string(id), .json = ToJson(item)});
  }
  return parsed;
}

std::string ToArray(std::span<const ResponsesItem> items) {
  std::string array = "[";
  for (const ResponsesItem& item : items) {
    if (array.size() > 1) array += ',';
    array += item.json;
  }
  return array + "]";
}

std::string EncodeItemList(std::span<const ResponsesItem> items, bool has_more) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("object").String("list").Key("data").Raw(ToArray(items));
  json.Key("first_id");
  items.empty() ? json.Null() : json.String(items.front().id);
  json.Key("last_id");
  items.empty() ? json.Null() : json.String(items.back().id);
  json.Key("has_more").Bool(has_more).EndObject();
  return out;
}

Result<std::string> EncodeItemPage(std::span<const ResponsesItem> items, const PageArgs& args) {
  KVGATE_TRY(const size_t limit, PageLimit(args.limit));
  if (!args.order.empty() && args.order != "asc" && args.order != "desc") {
    return RangeError("order", "must be 'asc' or 'desc'");
  }
  std::vector<ResponsesItem> page(items.begin(), items.end());
  if (args.order != "asc") std::reverse(page.begin(), page.end());
  if (!args.after.empty()) {
    const auto last = std::find_if(page.begin(), page.end(),
                                   [&](const auto& item) { return item.id == args.after; });
    if (last == page.end()) {
      return RangeError("after", fmt::format("must be the id of an item here, which '{}' is not",
                                             args.after.substr(0, 80)));
    }
    page.erase(page.begin(), last + 1);
  }
  const bool has_more = page.size() > limit;
  if (has_more) page.resize(limit);
  return EncodeItemList(page, has_more);
}

}  // namespace kvgate::dialect::responses
