#include "gateway/proxy/handler/prompts/prompt_data.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::proxy::handler::prompts {

using dialect::form::JsonWriter;
using request::Route;
using session::prompts::LabelOf;
using session::prompts::NamedPrompts;
using session::prompts::PromptLibrary;
using session::prompts::PromptName;
using session::prompts::PromptVersion;

namespace {

constexpr std::string_view kSource = "proxy";

Error Wrong(std::string_view field, std::string why) {
  return MakeError(ErrorCode::kInvalidArgument, std::string(kSource), std::move(why),
                   std::string(field));
}

Error NotFound(const PromptName& name) {
  return MakeError(ErrorCode::kNotFound, std::string(kSource),
                   fmt::format("There is no prompt '{}'.", LabelOf(name)));
}

void WriteVersion(const PromptLibrary& library, const PromptVersion& version, bool with_text,
                  JsonWriter& json) {
  json.BeginObject().Key("name").String(version.id.name);
  json.Key("version").String(version.id.version).Key("share");
  if (version.share) {
    json.Number(*version.share);
  } else {
    json.Null();
  }
  json.Key("gets_rest").Bool(library.RestOf(version.id.name)->id == version.id);
  json.Key("origin").String(version.is_configured ? "config" : "api");
  if (version.created_us > 0) json.Key("created_us").Integer(version.created_us);
  json.Key("bytes").Unsigned(version.text.size()).Key("variables").BeginArray();
  for (const std::string& variable : version.variables) json.String(variable);
  json.EndArray();
  if (with_text) json.Key("text").String(version.text);
  json.EndObject();
}

std::string ListOf(const PromptLibrary& library, std::span<const PromptVersion> versions) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("data").BeginArray();
  for (const PromptVersion& version : versions) WriteVersion(library, version, false, json);
  json.EndArray().EndObject();
  return body;
}

std::string One(const PromptLibrary& library, const PromptVersion& version) {
  std::string body;
  JsonWriter json(body);
  WriteVersion(library, version, true, json);
  return body;
}

// Reads {"text", "share"}, of which a version that is there already need not say its text again.
Result<PromptVersion> ReadSet(PromptName id, std::string_view body) {
  const auto json = session::transcript::ParseJson(body);
  if (!json || !json->is_object()) return Wrong("", "The body is no JSON object.");
  std::optional<std::string> text;
  std::optional<double> share;
  for (const auto& [name, value] : json->items()) {
    if (name == "text") {
      if (!value.is_string()) return Wrong("text", "Invalid type for 'text': it is a text.");
      text = value.get<std::string>();
    } else if (name == "share") {
      if (value.is_null()) continue;
      if (!value.is_number()) return Wrong("share", "Invalid type for 'share': it is a number.");
      share = value.get<double>();
    } else {
      return Wrong(name.substr(0, 64), fmt::format("Unknown parameter: '{}'.", name.substr(0, 64)));
    }
  }
  if (text) return session::prompts::MakeVersion(std::move(id), *text, share);
  // Only the share is checked.
  KVGATE_TRY(PromptVersion version, session::prompts::MakeVersion(std::move(id), "-", share));
  version.text.clear();
  return version;
}

Result<std::string> Set(NamedPrompts& named, PromptName id, std::string_view body) {
  KVGATE_TRY_VOID(session::prompts::CheckPromptName(id));
  KVGATE_TRY(PromptVersion version, ReadSet(std::move(id), body));
  KVGATE_TRY(const PromptVersion set, named.Set(std::move(version)));
  return One(*named.library(), set);
}

Result<std::string> Remove(NamedPrompts& named, const PromptName& name) {
  KVGATE_TRY(const size_t removed, named.Remove(name));
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("removed").Unsigned(removed).EndObject();
  return body;
}

}  // namespace

Result<std::string> AnswerPrompts(NamedPrompts* named, const PromptCall& call) {
  const PromptName name{.name = call.place.argument, .version = call.place.item};
  static const auto none = std::make_shared<const PromptLibrary>();
  const std::shared_ptr<const PromptLibrary> library = named == nullptr ? none : named->library();
  switch (call.place.route) {
    case Route::kNamedPrompts:
      return ListOf(*library, library->all());
    case Route::kNamedPrompt: {
      const std::span<const PromptVersion> versions = library->VersionsOf(name.name);
      if (versions.empty()) return NotFound(name);
      return ListOf(*library, versions);
    }
    case Route::kPromptVersion: {
      const PromptVersion* const version = library->Find(name);
      if (version == nullptr) return NotFound(name);
      return One(*library, *version);
    }
    default:
      if (named == nullptr) return NotFound(name);
      return call.place.route == Route::kPromptVersionPut ? Set(*named, name, call.body)
                                                          : Remove(*named, name);
  }
}

}  // namespace kvgate::proxy::handler::prompts
