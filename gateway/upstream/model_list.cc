#include "gateway/upstream/model_list.h"

#include <simdjson.h>

#include <set>

#include "gateway/protocol/form/json_writer.h"

namespace kvgate::upstream {

using protocol::form::JsonWriter;

std::optional<std::vector<ListedModel>> ParseModelList(std::string body, wire::Dialect dialect,
                                                       std::string_view owner) {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::array data;
  body.reserve(body.size() + simdjson::SIMDJSON_PADDING);
  const simdjson::padded_string_view padded(body.data(), body.size(), body.capacity());
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS) return std::nullopt;
  if (document["data"].get_array().get(data) != simdjson::SUCCESS) return std::nullopt;
  std::vector<ListedModel> models;
  for (auto entry : data) {
    simdjson::ondemand::object object;
    std::string_view id;
    std::string_view json;
    if (entry.get_object().get(object) != simdjson::SUCCESS) return std::nullopt;
    if (object["id"].get_string().get(id) != simdjson::SUCCESS) return std::nullopt;
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

std::string JoinModelLists(const std::vector<ListedModel>& models, wire::Dialect dialect) {
  const bool anthropic = dialect == wire::Dialect::kAnthropic;
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
  std::string out = anthropic ? R"({"data":[)" : R"({"object":"list","data":[)";
  out += entries;
  out += ']';
  if (anthropic) {
    out += R"(,"has_more":false,"first_id":)";
    protocol::form::AppendJsonString(first, out);
    out += R"(,"last_id":)";
    protocol::form::AppendJsonString(last, out);
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
