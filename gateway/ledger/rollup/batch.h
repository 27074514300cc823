// A Batch sums requests by tenant and minute before they are added to the rows of rollups. As bytes
// it is a note: what is not yet in those rows after a crash. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/ledger/rollup/bucket.h"
#include "gateway/ledger/rollup/entry.h"
#include "gateway/ledger/rollup/rollup_key.h"

namespace kvgate::ledger::rollup {

class Batch {
 public:
  using Name = std::pair<By, std::string>;
  struct Key {
    std::string tenant = {};
    int64_t minute = 0;  // since 1970
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Names = std::map<Name, Bucket>;

  void Add(const Entry& entry);
  void Merge(const Batch& other);
  void Clear();
  bool empty() const { return sums_.empty(); }
  const std::map<Key, Names>& sums() const { return sums_; }

  // Encodes it in the layout of store/FORMAT.md.
  std::string Encode() const;
  // Adds what the bytes hold. Returns false, and adds nothing, if they are none, or of an unknown
  // version.
  bool AddEncoded(std::string_view bytes);
  friend bool operator==(const Batch&, const Batch&) = default;

 private:
  std::map<Key, Names> sums_;
};

}  // namespace kvgate::ledger::rollup
