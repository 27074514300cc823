#include "gateway/local/prefix_places.h"

#include <utility>

#include "kernels/backend.h"

namespace kvgate::local {
namespace {

using engine::KvPlace;

// The blocks of one prefix among those that the engine is asked for.
struct Asked {
  size_t begin = 0;
  size_t end = 0;
  bool is_whole = false;  // all of the prefix's blocks, not only the last one
};

class Question {
 public:
  Question(const engine::Engine& engine, const store::kv::KvStore& kv, size_t blocks_max)
      : fingerprint_(engine.info().kv_fingerprint), kv_(kv), blocks_max_(blocks_max) {}

  Asked Add(const ListedPrefix& prefix) {
    const size_t begin = blocks_.size();
    if (prefix.leaf.fingerprint != fingerprint_ || begin >= blocks_max_) {
      return {.begin = begin, .end = begin};
    }
    if (prefix.is_stored && !is_full_) {
      if (const auto chain = kv_.Chain(prefix.leaf)) {
        is_full_ = begin + chain->size() > blocks_max_;
        if (!is_full_) {
          for (const store::kv::KvKey& key : *chain) blocks_.push_back(key.hash);
          return {.begin = begin, .end = blocks_.size(), .is_whole = true};
        }
      }
    }
    blocks_.push_back(prefix.leaf.hash);
    return {.begin = begin, .end = blocks_.size()};
  }
  bool Concerns(const ListedPrefix& prefix) const {
    return prefix.leaf.fingerprint == fingerprint_;
  }
  std::vector<BlockHash> TakeBlocks() { return std::move(blocks_); }

 private:
  const Fingerprint fingerprint_;
  const store::kv::KvStore& kv_;
  const size_t blocks_max_;
  std::vector<BlockHash> blocks_;
  bool is_full_ = false;
};

PrefixPlace::Tokens CountTokens(std::span<const KvPlace> places) {
  constexpr uint64_t kBlock = kernels::kKvBlockTokens;
  PrefixPlace::Tokens tokens;
  for (const KvPlace place : places) {
    if (place == KvPlace::kDevice) tokens.on_device += kBlock;
    if (place == KvPlace::kHost) tokens.on_host += kBlock;
    if (place == KvPlace::kAbsent) tokens.on_disk += kBlock;
  }
  return tokens;
}

}  // namespace

std::vector<PrefixPlace> FindPlaces(engine::Engine* engine, const store::kv::KvStore& kv,
                                    std::span<const ListedPrefix> prefixes,
                                    const PlaceLimits& limits) {
  std::vector<PrefixPlace> found(prefixes.size());
  for (size_t i = 0; i < prefixes.size(); ++i) {
    if (prefixes[i].is_stored) found[i].tier = "disk";
  }
  if (engine == nullptr) return found;
  Question question(*engine, kv, limits.blocks_max);
  std::vector<Asked> asked;
  asked.reserve(prefixes.size());
  for (const ListedPrefix& prefix : prefixes) asked.push_back(question.Add(prefix));
  std::vector<BlockHash> blocks = question.TakeBlocks();
  std::optional<std::vector<KvPlace>> places = std::vector<KvPlace>{};
  if (!blocks.empty()) places = engine->Locate(std::move(blocks), limits.timeout);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const auto& [begin, end, is_whole] = asked[i];
    if (begin == end || !places) {
      // A faster tier than the disk may have it.
      if (question.Concerns(prefixes[i])) found[i].tier = {};
      continue;
    }
    const auto own = std::span(*places).subspan(begin, end - begin);
    if (own.back() == KvPlace::kDevice) found[i].tier = "device";
    if (own.back() == KvPlace::kHost) found[i].tier = "host";
    if (is_whole) found[i].tokens = CountTokens(own);
  }
  return found;
}

}  // namespace kvgate::local
