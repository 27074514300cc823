// TenantMemory holds what a tenant's conversations share towards one upstream: the first-seen bytes
// of tools and system blocks, and the first-seen order of tool lists. It knows no turns. It is
// bounded in bytes and evicts the least recently used text, but takes it from a scope that holds
// more than half, if there is one, so that no tenant can push out the others. Thread-safe. New
// entries can be taken and given to a later process (gateway/service/prompt_store).
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

namespace kvgate::prompt::history {

class TenantMemory {
 public:
  explicit TenantMemory(size_t bytes_max) : bytes_max_(bytes_max) {}

  // A tenant at one upstream.
  using Scope = parse::Identity;
  static Scope ScopeOf(std::string_view tenant, std::string_view upstream);

  // Returns the bytes in which the value first went out; null if it has not been sent yet.
  std::shared_ptr<const std::string> FindBytes(const Scope& scope, const parse::Identity& same);
  // The same, but the bytes do not count as used.
  std::shared_ptr<const std::string> PeekBytes(const Scope& scope,
                                               const parse::Identity& same) const;
  // Does not keep a value that is larger than a quarter of the memory.
  void KeepBytes(const Scope& scope, const parse::Identity& same,
                 std::shared_ptr<const std::string> bytes);

  // Returns the longest of the tool lists sent before whose tools are all in `tools`; empty if
  // there is none.
  std::vector<parse::Identity> FindOrder(const Scope& scope,
                                         std::span<const parse::Identity> tools);
  void KeepOrder(const Scope& scope, std::vector<parse::Identity> tools);

  // One entry: the first-seen bytes of a value, or an order of tools.
  struct Row {
    parse::Identity key;                            // of scope and value; for an order, the scope
    std::shared_ptr<const std::string> bytes = {};  // null for an order
    Scope scope = {};                               // zero for a text whose row does not name it
    std::vector<parse::Identity> order = {};
  };
  // Returns the entries that are new since the last call, oldest first. The first call returns none
  // and starts the recording. Entries beyond a quarter of the memory between two calls are not
  // recorded.
  std::vector<Row> TakeNew();
  // Adds an entry of another process, which does not count as new. Entries known here are kept.
  void Restore(Row row);

 private:
  static constexpr size_t kOrdersMax = 32;  // per scope
  struct Text;
  using List = std::list<Text>;
  using Order = std::list<List::iterator>;
  struct Text {
    Scope scope;
    parse::Identity key;
    std::shared_ptr<const std::string> bytes;
    Order::iterator place = {};  // in its scope's list
  };
  struct Kept {
    Order texts;  // last used first
    std::unordered_map<parse::Identity, List::iterator> by_key;
    std::vector<std::vector<parse::Identity>> orders;  // oldest first
    size_t bytes = 0;
  };
  // Holds texts whose rows do not name their scope, until they are asked for.
  static constexpr Scope kNobodys{};

  std::shared_ptr<const std::string> FindLocked(const Scope& scope, const parse::Identity& key);
  // Returns false if the text is known or too large.
  bool InsertLocked(const Scope& scope, const parse::Identity& key,
                    std::shared_ptr<const std::string> bytes);
  void AddOrderLocked(const Scope& scope, std::vector<parse::Identity> tools);
  // Adds `bytes`, which may be negative, to the scope's and the total size.
  void CountLocked(const Scope& scope, int64_t bytes);
  void MakeRoomLocked();
  void DropTextLocked(List::iterator text);
  void NoteLocked(Row row, size_t bytes);

  const size_t bytes_max_;
  mutable std::mutex mutex_;
  List texts_;  // last used first
  std::unordered_map<Scope, Kept> scopes_;
  Scope largest_;  // the last scope that exceeded half of bytes_max_
  size_t bytes_ = 0;
  bool notes_ = false;
  std::vector<Row> noted_;
  size_t noted_bytes_ = 0;
};

}  // namespace kvgate::prompt::history
