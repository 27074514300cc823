#include "gateway/prompt/parse/turn_memo.h"

#include <xxhash.h>

#include <algorithm>
#include <random>

#include "gateway/prompt/parse/canonical.h"

namespace kvgate::prompt {
namespace {

// Of the beginning, which is what a conversation is found by.
constexpr size_t kKeyBytes = 512;
// The newest turns may differ in where a marker stands; behind a cut all is read again.
constexpr size_t kCutsMax = 8;

Identity KeyOf(std::string_view list, std::string_view field) {
  return Chain(HashBytes(list.substr(0, kKeyBytes), Domain::kRaw), HashBytes(field, Domain::kRaw));
}

}  // namespace

class TurnMemo::Growing {
 public:
  Growing() {
    // Of this process: what one caller sends cannot be made to look like another's.
    static const uint64_t seed = uint64_t{std::random_device{}()} << 32 | std::random_device{}();
    XXH3_128bits_reset_withSeed(state_.get(), seed);
  }
  Growing(const Growing& other) : at_(other.at_) {
    XXH3_copyState(state_.get(), other.state_.get());
  }
  Growing& operator=(const Growing&) = delete;

  // Of `text` up to `end`; it begins with what has been read.
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
  const size_t bytes = known->segments.size() * sizeof(Found);
  const std::lock_guard lock(mutex_);
  if (young_.insert_or_assign(KeyOf(list, field), std::move(known)).second) young_bytes_ += bytes;
  if (young_bytes_ <= young_bytes_max_) return;
  old_ = std::exchange(young_, {});
  young_bytes_ = 0;
}

}  // namespace kvgate::prompt
