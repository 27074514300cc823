// TurnMemo: lists of turns as they were read last. A list that begins with the same bytes is not
// skimmed again there: its bytes are hashed up to places between turns, and what is known of them
// is taken over. Bounded; thread-safe; a lock is held for one look-up.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gateway/prompt/shared_list.h"
#include "gateway/prompt/parse/sources.h"

namespace kvgate::prompt {

// Up to here a list has been read: `bytes` from its bracket on.
struct TurnCut {
  uint32_t bytes = 0;
  uint32_t num_segments = 0;
  int32_t num_elements = 0;
  Identity hash;
};

struct KnownTurns {
  SharedList<Found> segments;  // spans from the list's bracket on; no views of a body
  std::vector<TurnCut> cuts;   // in their order
};

class TurnMemo {
 public:
  explicit TurnMemo(size_t bytes_max) : young_bytes_max_(bytes_max / 2) {}
  // A shorter list is read as quickly as it is looked up: it is neither kept nor found.
  static constexpr size_t kListBytesMin = 8192;

  // The hash of a list as far as it has been read.
  class Growing;
  // What is known of a list that begins like `list`, and how much of that it has: cuts[0, count).
  struct Match {
    std::shared_ptr<const KnownTurns> known;
    size_t num_cuts = 0;
    std::shared_ptr<const Growing> hashed;  // up to the last of them; null: there is none
  };
  Match Find(std::string_view list, std::string_view field);
  // `list` up to its last bracket, `match` what Find said of it; `segments` in its order, spans as
  // in KnownTurns.
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

}  // namespace kvgate::prompt
