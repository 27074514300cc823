// Lists of models: parsed from an upstream's /models, cached for some seconds, merged into one
// list.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/dialect/form/dialect.h"

namespace kvgate::upstream {

struct ListedModel {
  std::string id;
  std::string json;  // the entry, verbatim
  dialect::form::Api dialect = dialect::form::Api::kOpenAi;
  std::string owner;  // the upstream's name
};

// Parses the entries of {"data": [{"id": …}, …]}; returns nullopt if the body has another form.
std::optional<std::vector<ListedModel>> ParseModelList(std::string body, dialect::form::Api dialect,
                                                       std::string_view owner);

// Returns one list in the caller's dialect: its own entries verbatim, those of the other dialect
// rewritten. If two entries have one id, the first is listed, as in routing.
// One model as Gemini's API has it.
std::string GeminiModel(std::string_view id);
std::string JoinModelLists(const std::vector<ListedModel>& models, dialect::form::Api dialect);

// Caches the parsed lists by upstream and tenant. Thread-safe.
class ModelListCache {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kFresh{10};
  static constexpr size_t kListsMax = 256;  // when it is reached, all are dropped

  std::optional<std::vector<ListedModel>> Find(const std::string& key, TimePoint now) const;
  // Returns the list however old it is, for use when the upstream does not answer.
  std::optional<std::vector<ListedModel>> FindStale(const std::string& key) const;
  void Put(const std::string& key, std::vector<ListedModel> models, TimePoint now);

 private:
  struct Entry {
    TimePoint read_at;
    std::vector<ListedModel> models;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace kvgate::upstream
