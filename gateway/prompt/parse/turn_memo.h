// TurnMemo keeps lists of turns as they were last read. If a list begins with the same bytes, that
// part is not skimmed again: its bytes are hashed up to cuts between turns, and the known segments
// are reused. Bounded; thread-safe; a lock is held for one look-up.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gateway/prompt/parse/shared_list.h"
#include "gateway/prompt/parse/sources.h"

namespace kvgate::prompt::parse {

// A position between turns up to which a list was read; `bytes` counts from the list's bracket.
struct TurnCut {
  uint32_t bytes = 0;
  uint32_t num_segments = 0;
  int32_t num_elements = 0;
  Identity hash;
};

struct KnownTurns {
  SharedList<Found> segments;  // spans count from the list's bracket; no views of a body
  std::vector<TurnCut> cuts;   // in order
};

class TurnMemo {
 public:
  explicit TurnMemo(size_t bytes_max) : young_bytes_max_(bytes_max / 2) {}
  // A shorter list is read as quickly as it is looked up, so it is neither kept nor found.
  static constexpr size_t kListBytesMin = 8192;

  // An incremental hash of the part of a list that has been read.
  class Growing;
  // The known turns with which `list` begins: the cuts [0, num_cuts) of `known` match it.
  struct Match {
    std::shared_ptr<const KnownTurns> known;
    size_t num_cuts = 0;
    std::shared_ptr<const Growing> hashed;  // state up to the last matching cut; null: none
  };
  Match Find(std::string_view list, std::string_view field);
  // Keeps `list`, which reaches to its last bracket. `match` is the result of Find, and `segments`
  // are in list order with spans as in KnownTurns.
  void Keep(std::string_view list, std::string_view field, const Match& match,
            SharedList<Found> segments);

 private:
  using Map = std::unordered_map<Identity, std::shared_ptr<const KnownTurns>>;
  const size_t young_bytes_max_;
  std::mutex mutex_;
  Map young_;
  Map old_;
  size_t young_bytes_ = 0;
};

}  // namespace kvgate::prompt::parse
