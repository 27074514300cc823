// TenantMemory: what a tenant's conversations share towards one upstream: the first-seen bytes of
// tools and system blocks, and the first-seen order of lists of tools. It knows no turn of anybody.
// Bounded in bytes by generations; thread-safe. What is new in it can be taken and given to a later
// process (gateway/service/prompt_store).
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gateway/prompt/segment.h"

namespace kvgate::prompt {

class TenantMemory {
 public:
  explicit TenantMemory(size_t bytes_max) : young_bytes_max_(bytes_max / 2) {}

  // A tenant at an upstream.
  using Scope = Identity;
  static Scope ScopeOf(std::string_view tenant, std::string_view upstream);

  // The bytes in which the value went out first; null: it did not yet.
  std::shared_ptr<const std::string> FindBytes(const Scope& scope, const Identity& same);
  void KeepBytes(const Scope& scope, const Identity& same,
                 std::shared_ptr<const std::string> bytes);

  // Of the lists sent before the largest one whose tools are all in `tools`, in its order; empty:
  // there is none.
  std::vector<Identity> FindOrder(const Scope& scope, std::span<const Identity> tools);
  void KeepOrder(const Scope& scope, std::vector<Identity> tools);

  // One thing it knows: a value's first-seen bytes, or an order of tools.
  struct Row {
    Identity key;                                   // of scope and value; of an order: the scope
    std::shared_ptr<const std::string> bytes = {};  // null: it is an order
    std::vector<Identity> order = {};
  };
  // What became known since the last call, the oldest first; the first call is told nothing, and
  // from then on it is noted. More than a quarter of the memory between two calls is not.
  std::vector<Row> TakeNew();
  // What another process knew; it is not new. What is known here stays.
  void Restore(Row row);

 private:
  static constexpr size_t kOrdersMax = 32;  // of a scope
  struct Generation {
    std::unordered_map<Identity, std::shared_ptr<const std::string>> texts;
    std::unordered_map<Identity, std::vector<std::vector<Identity>>> orders;
    size_t bytes = 0;
  };
  void TurnOverLocked();
  void NoteLocked(Row row, size_t bytes);

  const size_t young_bytes_max_;
  std::mutex mutex_;
  Generation young_;
  Generation old_;
  bool notes_ = false;
  std::vector<Row> noted_;
  size_t noted_bytes_ = 0;
};

}  // namespace kvgate::prompt
