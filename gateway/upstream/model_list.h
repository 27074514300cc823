// Lists of models: read from an upstream's /models, kept for some seconds, joined to one.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/upstream/dialect.h"

namespace kvgate::upstream {

struct ListedModel {
  std::string id;
  std::string json;  // the entry as it stood
  Dialect dialect = Dialect::kOpenAi;
  std::string owner;  // the upstream's name
};

// The entries of {"data": [{"id": …}, …]}; nothing where that is not what it is.
std::optional<std::vector<ListedModel>> ParseModelList(std::string body, Dialect dialect,
                                                       std::string_view owner);

// In the caller's dialect: its own entries as they stood, those of the other one rewritten. Of two
// with one id the first counts, as in routing.
std::string JoinModelLists(const std::vector<ListedModel>& models, Dialect dialect);

// What has been read, for each upstream and tenant. Thread-safe.
class ModelListCache {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kFresh{10};
  static constexpr size_t kListsMax = 256;  // beyond: all are forgotten

  std::optional<std::vector<ListedModel>> Find(const std::string& key, TimePoint now) const;
  // The same however old, for an upstream that does not answer.
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
