// Fuzzes JSON both ways: any body is an object or an error, and any bytes are written as a string
// that reads back, unchanged if they were valid UTF-8.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "gateway/dialect/form/field_reader.h"
#include "gateway/dialect/form/json_writer.h"

namespace {

using namespace kvgate::dialect;  // NOLINT: a program of its own

// Runs every reader on every field; each returns a value of its type or an error with the path.
void ReadAll(form::JsonObject object) {
  for (const simdjson::dom::key_value_pair field : object) {
    const std::string path(field.key);
    (void)form::ReadString(field.value, path);
    (void)form::ReadBool(field.value, path);
    (void)form::ReadArray(field.value, path);
    (void)form::ReadObject(field.value, path);
    const auto integer = form::ReadInteger(field.value, path, {.min = -7, .max = 1 << 20});
    if (integer && (*integer < -7 || *integer > 1 << 20)) std::abort();
    const auto number = form::ReadNumber(field.value, path, {.min = 0, .max = 2});
    if (number && !(*number >= 0 && *number <= 2)) std::abort();
  }
}

void WriteAndRead(std::string_view bytes) {
  std::string json;
  form::JsonWriter(json).BeginObject().Key(bytes).String(bytes).Key("n").Number(0.5).EndObject();
  simdjson::dom::parser parser;
  const form::DecodeLimits limits;
  const auto object = form::ParseBody(json, limits, parser);
  if (!object) std::abort();
  std::string_view read;
  for (const simdjson::dom::key_value_pair field : *object) {
    if (field.key == "n") continue;
    if (field.value.get(read) != simdjson::SUCCESS || read != field.key) std::abort();
    if (kvgate::IsValidUtf8(bytes) != (read == bytes)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  simdjson::dom::parser parser;
  const form::DecodeLimits limits{.json_depth_max = 8};
  if (const auto object = form::ParseBody(bytes, limits, parser); object) ReadAll(*object);
  WriteAndRead(bytes);
  return 0;
}
