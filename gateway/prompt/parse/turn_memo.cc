#include "gateway/prompt/parse/turn_memo.h"

#include <xxhash.h>
#ifdef KVGATE_XXHASH_DISPATCH
#include <xxh_x86dispatch.h>  // the same hashes, with the widest registers that there are
#endif

#include <algorithm>

#include "base/digest.h"
#include "gateway/prompt/parse/canonical.h"

namespace kvgate::prompt::parse {
namespace {

// A conversation is found by the hash of so many bytes at the list's beginning.
constexpr size_t kKeyBytes = 512;
// The newest turns may differ in the position of a breakpoint; all behind a matching cut is read
// again.
constexpr size_t kCutsMax = 8;

Identity KeyOf(std::string_view list, std::string_view field) {
  return Chain(HashBytes(list.substr(0, kKeyBytes), Domain::kRaw), HashBytes(field, Domain::kRaw));
}

size_t BytesOf(const KnownTurns& turns) { return turns.segments.size() * sizeof(Found); }

}  // namespace

class TurnMemo::Growing {
 public:
  Growing() {
    // The seed is random per process, so that no caller can forge a collision with another's turns.
    static const uint64_t seed = RandomSeed();
    XXH3_128bits_reset_withSeed(state_.get(), seed);
  }
  Growing(const Growing& other) : at_(other.at_) {
    XXH3_copyState(state_.get(), other.state_.get());
  }
  Growing& operator=(const Growing&) = delete;

  // Returns the hash of `text` up to `end`. REQUIRES: it begins with the part hashed so far.
  Identity At(std::string_view text, size_t end) {
    XXH3_128bits_update(state_.get(), text.data() + at_, end - at_);
    at_ = end;
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {hash.low64, hash.high64};
  }

 private:
  size_t at_ = 0;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_{XXH3_createState(),
                                                                        &XXH3_freeState};
};

TurnMemo::Match TurnMemo::Find(std::string_view list, std::string_view field) {
  if (list.size() < kListBytesMin) return {};
  const Identity key = KeyOf(list, field);
  Match match;
  {
    const std::lock_guard lock(mutex_);
    for (Map* map : {&young_, &old_}) {
      const auto found = map->find(key);
      if (found == map->end() || match.known) continue;
      match.known = found->second;
    }
  }
  if (!match.known) return {};
  Growing growing;
  for (const TurnCut& cut : match.known->cuts) {
    if (cut.bytes > list.size() || growing.At(list, cut.bytes) != cut.hash) break;
    ++match.num_cuts;
    match.hashed = std::make_shared<const Growing>(growing);
  }
  return match.num_cuts > 0 ? match : Match{};
}

void TurnMemo::Keep(std::string_view list, std::string_view field, const Match& match,
                    SharedList<Found> segments) {
  if (list.size() < kListBytesMin || segments.empty()) return;
  auto known = std::make_shared<KnownTurns>();
  std::vector<TurnCut>& cuts = known->cuts;
  size_t first = 0;
  if (match.num_cuts > 0) {
    cuts.assign(match.known->cuts.begin(), match.known->cuts.begin() + match.num_cuts);
    first = cuts.back().num_segments;
  }
  const size_t num_known = cuts.size();
  for (size_t i = first; i < segments.size(); ++i) {
    const bool last = i + 1 == segments.size();
    if (!last && segments[i + 1].segment.element == segments[i].segment.element) continue;
    TurnCut cut;
    cut.bytes = segments[i].segment.element.end;
    cut.num_segments = static_cast<uint32_t>(i + 1);
    cut.num_elements = segments[i].segment.place.element + 1;
    cuts.push_back(cut);
  }
  Growing growing = match.hashed ? Growing(*match.hashed) : Growing();
  for (size_t i = std::max(num_known, cuts.size() - std::min(cuts.size(), kCutsMax));
       i < cuts.size(); ++i) {
    cuts[i].hash = growing.At(list, cuts[i].bytes);
  }
  if (cuts.size() > kCutsMax) cuts.erase(cuts.begin(), cuts.end() - kCutsMax);
  known->segments = std::move(segments);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const KnownTurns>& kept = young_[KeyOf(list, field)];
  if (kept) young_bytes_ -= BytesOf(*kept);
  kept = std::move(known);
  young_bytes_ += BytesOf(*kept);
  if (young_bytes_ <= young_bytes_max_) return;
  old_ = std::exchange(young_, {});
  young_bytes_ = 0;
}

}  // namespace kvgate::prompt::parse
