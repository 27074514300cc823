// TenantMemory: what a tenant's conversations share towards one upstream: the first-seen bytes of
// tools and system blocks, and the first-seen order of lists of tools. It knows no turn of anybody.
// Bounded in bytes: the text that was not asked for longest goes first, but of a scope that has
// more than half, so that nobody can push out what others keep. Thread-safe. What is new in it can
// be taken and given to a later process (gateway/service/prompt_store).
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt {

class TenantMemory {
 public:
  explicit TenantMemory(size_t bytes_max) : bytes_max_(bytes_max) {}

  // A tenant at an upstream.
  using Scope = Identity;
  static Scope ScopeOf(std::string_view tenant, std::string_view upstream);

  // The bytes in which the value went out first; null: it did not yet.
  std::shared_ptr<const std::string> FindBytes(const Scope& scope, const Identity& same);
  // Not where it is larger than a quarter of all.
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
  struct Text;
  using List = std::list<Text>;
  using Order = std::list<List::iterator>;
  struct Text {
    Scope scope;
    Identity key;
    std::shared_ptr<const std::string> bytes;
    Order::iterator place = {};  // among its scope's
  };
  struct Kept {
    Order texts;  // the last asked for first
    std::unordered_map<Identity, List::iterator> by_key;
    std::vector<std::vector<Identity>> orders;  // the oldest first
    size_t bytes = 0;
  };
  // Where texts are that another process knew, until they are asked for: a row does not say whose
  // it is.
  static constexpr Scope kNobodys{};

  std::shared_ptr<const std::string> FindLocked(const Scope& scope, const Identity& key);
  // False: it is there, or too large.
  bool InsertLocked(const Scope& scope, const Identity& key,
                    std::shared_ptr<const std::string> bytes);
  void AddOrderLocked(const Scope& scope, std::vector<Identity> tools);
  // The scope has so many bytes more, or fewer.
  void CountLocked(const Scope& scope, int64_t bytes);
  void MakeRoomLocked();
  void DropTextLocked(List::iterator text);
  void NoteLocked(Row row, size_t bytes);

  const size_t bytes_max_;
  std::mutex mutex_;
  List texts_;  // the last asked for first
  std::unordered_map<Scope, Kept> scopes_;
  Scope largest_;  // the last one that came to have more than half
  size_t bytes_ = 0;
  bool notes_ = false;
  std::vector<Row> noted_;
  size_t noted_bytes_ = 0;
};

}  // namespace kvgate::prompt
