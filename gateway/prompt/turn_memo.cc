#include "gateway/prompt/turn_memo.h"

#include <xxhash.h>

#include <algorithm>
#include <random>

#include "gateway/prompt/canonical.h"

namespace kvgate::prompt {
namespace {

// A shorter list is read as quickly as it is looked up.
constexpr size_t kListBytesMin = 8192;
// Of the beginning, which is what a conversation is found by.
constexpr size_t kKeyBytes = 512;
// The newest turns may differ in where a marker stands; behind a cut all is read again.
constexpr size_t kCutsMax = 8;

Identity KeyOf(std::string_view list, std::string_view field) {
  return Chain(HashBytes(list.substr(0, kKeyBytes), Domain::kRaw), HashBytes(field, Domain::kRaw));
}

// The hash of a text as it grows.
class Growing {
 public:
  explicit Growing(std::string_view text) : text_(text) {
    // Of this process: what one caller sends cannot be made to look like another's.
    static const uint64_t seed = uint64_t{std::random_device{}()} << 32 | std::random_device{}();
    XXH3_128bits_reset_withSeed(state_.get(), seed);
  }
  Identity At(size_t end) {
    XXH3_128bits_update(state_.get(), text_.data() + at_, end - at_);
    at_ = end;
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {hash.low64, hash.high64};
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_{XXH3_createState(),
                                                                        &XXH3_freeState};
};

}  // namespace

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
  Growing growing(list);
  for (const TurnCut& cut : match.known->cuts) {
    if (cut.bytes > list.size() || growing.At(cut.bytes) != cut.hash) break;
    ++match.num_cuts;
  }
  return match.num_cuts > 0 ? match : Match{};
}

void TurnMemo::Keep(std::string_view list, std::string_view field, std::vector<Found> segments) {
  if (list.size() < kListBytesMin || segments.empty()) return;
  auto known = std::make_shared<KnownTurns>();
  std::vector<TurnCut>& cuts = known->cuts;
  for (size_t i = 0; i < segments.size(); ++i) {
    const bool last = i + 1 == segments.size();
    if (!last && segments[i + 1].segment.element == segments[i].segment.element) continue;
    TurnCut cut;
    cut.bytes = segments[i].segment.element.end;
    cut.num_segments = static_cast<uint32_t>(i + 1);
    cut.num_elements = segments[i].segment.place.element + 1;
    cuts.push_back(cut);
  }
  if (cuts.size() > kCutsMax) cuts.erase(cuts.begin(), cuts.end() - kCutsMax);
  Growing growing(list);
  for (TurnCut& cut : cuts) cut.hash = growing.At(cut.bytes);
  known->segments = std::move(segments);
  const size_t bytes = known->segments.size() * sizeof(Found);
  const std::lock_guard lock(mutex_);
  if (young_.insert_or_assign(KeyOf(list, field), std::move(known)).second) young_bytes_ += bytes;
  if (young_bytes_ <= young_bytes_max_) return;
  old_ = std::exchange(young_, {});
  young_bytes_ = 0;
}

}  // namespace kvgate::prompt
