#include "gateway/dialect/responses/item_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gateway/dialect/form/json_value.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::dialect::responses {

using form::Fields;
using form::IndexPath;
using form::JsonArray;
using form::JsonElement;
using form::JsonObject;
using form::JsonWriter;
using form::MissingError;
using form::RangeError;
using form::ReadObject;
using form::ReadString;
using form::ToJson;
using form::TypeError;

namespace {

constexpr size_t kIdBytesMax = 256;

std::string InputItemId(std::string_view type, std::string_view request_id, size_t index) {
  const std::string_view prefix = type == "function_call"             ? "fc"
                                  : type == "function_call_output"    ? "fco"
                                  : type == "custom_tool_call"        ? "ctc"
                                  : type == "custom_tool_call_output" ? "ctco"
                                  : type == "additional_tools"        ? "at"
                                  : type == "reasoning"               ? "rs"
                                                                      : "msg";
  return fmt::format("{}_kv{}_i{}", prefix, request_id, index);
}

void WriteText(std::string_view type, std::string_view text, JsonWriter& json) {
  json.BeginObject().Key("type").String(type).Key("text").String(text);
  if (type == "output_text") {
    json.Key("annotations").BeginArray().EndArray().Key("logprobs").BeginArray().EndArray();
  }
  json.EndObject();
}

struct Head {
  std::string id;
  std::string type;
};

std::string MessageJson(const Head& head, std::string_view role, std::string_view content) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("id").String(head.id).Key("type").String("message");
  json.Key("status").String("completed").Key("role").String(role);
  json.Key("content").Raw(content).EndObject();
  return out;
}

std::string TextPart(std::string_view role, std::string_view text) {
  std::string out = "[";
  JsonWriter json(out);
  WriteText(role == "assistant" ? "output_text" : "input_text", text, json);
  return out + "]";
}

Result<std::string> ReadMessage(JsonElement value, const std::string& path, const Head& head) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"role", "content"}));
  KVGATE_TRY(const std::string role, fields.String("role"));
  const JsonElement* content = fields.Find("content");
  if (content == nullptr) return MissingError(fields.Path("content"));
  if (!content->is_string()) return MessageJson(head, role, ToJson(*content));
  KVGATE_TRY(const std::string text, ReadString(*content, fields.Path("content")));
  return MessageJson(head, role, TextPart(role, text));
}

// Copies the item, adding an id and a status.
std::string OtherJson(JsonObject object, const Head& head) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("id").String(head.id);
  bool has_status = head.type == "reasoning";
  for (const simdjson::dom::key_value_pair field : object) {
    if (field.key == "id" || (field.key == "status" && field.value.is_null())) continue;
    has_status = has_status || field.key == "status";
    json.Key(field.key).Raw(ToJson(field.value));
  }
  if (!has_status) json.Key("status").String("completed");
  json.EndObject();
  return out;
}

Result<ResponsesItem> ReadItem(JsonElement value, const std::string& path,
                               std::string_view request_id, size_t index) {
  KVGATE_TRY(const Fields fields, Fields::Read(value, path, {"type", "id", "role"}));
  Head head;
  KVGATE_TRY(head.type, fields.StringOrEmpty("type"));
  if (head.type.empty()) {
    if (fields.Find("role") == nullptr) return MissingError(fields.Path("type"));
    head.type = "message";
  }
  KVGATE_TRY(head.id, fields.StringOrEmpty("id"));
  if (head.id.size() > kIdBytesMax) {
    return RangeError(fields.Path("id"), fmt::format("must have at most {} bytes", kIdBytesMax));
  }
  if (head.type == "item_reference") {
    if (head.id.empty()) return MissingError(fields.Path("id"));
    return ResponsesItem{.id = std::move(head.id), .json = {}, .is_reference = true};
  }
  if (head.id.empty()) head.id = InputItemId(head.type, request_id, index);
  std::string json;
  if (head.type == "message") {
    KVGATE_TRY(json, ReadMessage(value, path, head));
  } else {
    KVGATE_TRY(const JsonObject object, ReadObject(value, path));
    json = OtherJson(object, head);
  }
  return ResponsesItem{.id = std::move(head.id), .json = std::move(json)};
}

}  // namespace

Result<std::vector<ResponsesItem>> ReadItems(JsonElement value, const std::string& path,
                                             std::string_view request_id) {
  std::vector<ResponsesItem> items;
  if (value.is_string()) {
    KVGATE_TRY(const std::string text, ReadString(value, path));
    Head head{.id = InputItemId("message", request_id, 0), .type = "message"};
    std::string json = MessageJson(head, "user", TextPart("user", text));
    items.push_back({.id = std::move(head.id), .json = std::move(json)});
    return items;
  }
  JsonArray array;
  if (value.get(array) != simdjson::SUCCESS) {
    return TypeError(path, "a string or an array of items", value);
  }
  for (const JsonElement element : array) {
    const size_t index = items.size();
    KVGATE_TRY(ResponsesItem item, ReadItem(element, IndexPath(path, index), request_id, index));
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace kvgate::dialect::responses
