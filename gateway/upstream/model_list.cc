#include "gateway/upstream/model_list.h"

#include <simdjson.h>

#include <set>

#include "gateway/dialect/form/json_writer.h"

namespace kvgate::upstream {

using dialect::form::JsonWriter;

namespace {

// What stands in front of a model's id in its name at Gemini.
constexpr std::string_view kGeminiNames = "models/";

}  // namespace

std::optional<std::vector<ListedModel>> ParseModelList(std::string body, dialect::form::Api dialect,
                                                       std::string_view owner) {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::array data;
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  const simdjson::padded_string_view padded(body.data(), body.size(), body.capacity());
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS) return std::nullopt;
  const bool is_gemini = dialect == dialect::form::Api::kGemini;
  if (document[is_gemini ? "models" : "data"].get_array().get(data) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  std::vector<ListedModel> models;
  for (auto entry : data) {
    simdjson::ondemand::object object;
    std::string_view id;
    std::string_view json;
    if (entry.get_object().get(object) != simdjson::SUCCESS) return std::nullopt;
    if (object[is_gemini ? "name" : "id"].get_string().get(id) != simdjson::SUCCESS) {
      return std::nullopt;
    }
    if (is_gemini && id.starts_with(kGeminiNames)) id.remove_prefix(kGeminiNames.size());
    std::string name(id);
    if (object.reset().error() != simdjson::SUCCESS) return std::nullopt;
    if (object.raw_json().get(json) != simdjson::SUCCESS) return std::nullopt;
    models.push_back({.id = std::move(name),
                      .json = std::string(json),
                      .dialect = dialect,
                      .owner = std::string(owner)});
  }
  return models;
}

std::string GeminiModel(std::string_view id) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject().Key("name").String(std::string(kGeminiNames).append(id));
  json.Key("displayName").String(id).Key("supportedGenerationMethods").BeginArray();
  json.String("generateContent").String("countTokens").EndArray().EndObject();
  return out;
}

std::string JoinModelLists(const std::vector<ListedModel>& models, dialect::form::Api dialect) {
  const bool anthropic = dialect == dialect::form::Api::kAnthropic;
  const bool gemini = dialect == dialect::form::Api::kGemini;
  std::set<std::string_view> seen;
  std::string entries;
  std::string_view first;
  std::string_view last;
  for (const ListedModel& model : models) {
    if (!seen.insert(model.id).second) continue;
    if (first.empty()) first = model.id;
    last = model.id;
    if (!entries.empty()) entries += ',';
    if (model.dialect == dialect) {
      entries += model.json;
      continue;
    }
    if (gemini) {
      entries += GeminiModel(model.id);
      continue;
    }
    JsonWriter json(entries);
    json.BeginObject();
    if (anthropic) {
      json.Key("type").String("model").Key("id").String(model.id);
      json.Key("display_name").String(model.id);
      json.Key("created_at").String("1970-01-01T00:00:00Z");
    } else {
      json.Key("id").String(model.id).Key("object").String("model");
      json.Key("created").Integer(0).Key("owned_by").String(model.owner);
    }
    json.EndObject();
  }
  std::string out = gemini      ? R"({"models":[)"
                    : anthropic ? R"({"data":[)"
                                : R"({"object":"list","data":[)";
  out += entries;
  out += ']';
  if (anthropic) {
    out += R"(,"has_more":false,"first_id":)";
    dialect::form::AppendJsonString(first, out);
    out += R"(,"last_id":)";
    dialect::form::AppendJsonString(last, out);
  }
  out += '}';
  return out;
}

std::optional<std::vector<ListedModel>> ModelListCache::Find(const std::string& key,
                                                             TimePoint now) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || now - found->second.read_at > kFresh) return std::nullopt;
  return found->second.models;
}

std::optional<std::vector<ListedModel>> ModelListCache::FindStale(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  return found->second.models;
}

void ModelListCache::Put(const std::string& key, std::vector<ListedModel> models, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kListsMax) entries_.clear();
  entries_[key] = {.read_at = now, .models = std::move(models)};
}

}  // namespace kvgate::upstream
