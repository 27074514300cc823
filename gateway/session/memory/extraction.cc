#include "gateway/session/memory/extraction.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "gateway/dialect/form/json_writer.h"

namespace kvgate::session::memory {

using transcript::Json;

namespace {

constexpr std::string_view kSource = "session.memory";
// Names that an answer has and the schema has not are said up to this number.
constexpr size_t kRefusedMax = 64;

// Where the object that begins at `begin` ends; npos if it does not.
size_t EndOfObject(std::string_view text, size_t begin) {
  int depth = 0;
  bool is_string = false;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      if (c == '\\') ++i;
      if (c == '"') is_string = false;
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// The last object of a text: a model may think aloud before it.
std::optional<Json> LastObject(std::string_view text) {
  std::optional<Json> found;
  size_t at = text.find('{');
  while (at != std::string_view::npos) {
    const size_t end = EndOfObject(text, at);
    if (end == std::string_view::npos) break;
    std::optional<Json> json = transcript::ParseJson(text.substr(at, end - at));
    const bool is_object = json && json->is_object();
    if (is_object) found = std::move(json);
    at = text.find('{', is_object ? end : at + 1);
  }
  return found;
}

}  // namespace

Result<Extraction> Extraction::Read(std::string_view body) {
  const std::optional<Json> json = transcript::ParseJson(body);
  if (!json || !json->is_object()) {
    return MakeError(ErrorCode::kInvalidArgument, kSource, "The body is no JSON object.");
  }
  std::string instructions;
  for (const auto& [name, value] : json->items()) {
    if (name == "schema") continue;
    if (name != "instructions") {
      return MakeError(ErrorCode::kInvalidArgument, kSource,
                       fmt::format("Unknown field '{}': schema and instructions are known.",
                                   name.substr(0, kNameBytesMax)),
                       name.substr(0, kNameBytesMax));
    }
    if (value.is_null()) continue;
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kInstructionBytesMax) {
      return MakeError(ErrorCode::kInvalidArgument, kSource,
                       fmt::format("Invalid value for 'instructions': a text of at most {} bytes.",
                                   kInstructionBytesMax),
                       "instructions");
    }
    instructions = value.get<std::string>();
  }
  if (!json->contains("schema")) {
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     "Missing field 'schema': the facts that are looked for.", "schema");
  }
  KVGATE_TRY(FactSchema schema, FactSchema::Read((*json)["schema"]));
  return Extraction(std::move(schema), std::move(instructions));
}

std::string Extraction::Question(std::span<const Entry> known) const {
  Entries of_schema;
  for (const Entry& entry : known) {
    if (schema_.Has(entry.name)) of_schema.push_back(entry);
  }
  std::string facts;
  dialect::form::JsonWriter json(facts);
  WriteEntries(of_schema, json);
  return fmt::format(
      "Do not go on with the conversation. Look for facts in it that should be remembered: those "
      "of this JSON schema, as the conversation says them last.\n{}\nKnown so far: {}\nAnswer with "
      "one JSON object and nothing else. It has only facts that the conversation states and that "
      "are new or have changed; null for a known one that the conversation says is no longer true. "
      "Without such facts, answer {{}}.{}{}",
      schema_.text(), facts, instructions_.empty() ? "" : "\n", instructions_);
}

Result<Extraction::Found> Extraction::ReadAnswer(std::string_view text) const {
  const std::optional<Json> answer = LastObject(text);
  if (!answer) {
    return MakeError(ErrorCode::kUnavailable, kSource,
                     "The model has written no JSON object. Try again, or with another model.");
  }
  Found found;
  for (const auto& [name, value] : answer->items()) {
    Entry entry{.name = name, .value = transcript::Dump(value)};
    const bool is_taken =
        schema_.Has(name) && (value.is_null() || schema_.Allows(name, value)) && Check(entry);
    if (is_taken) {
      found.changes.push_back(std::move(entry));
    } else if (found.refused.size() < kRefusedMax) {
      found.refused.push_back(name.substr(0, kNameBytesMax));
    }
  }
  return found;
}

}  // namespace kvgate::session::memory
