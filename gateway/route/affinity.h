// Affinity chooses the member of a pool for a prompt. Each member has a cache of its own, so a
// prefix should come to the same member again: a conversation stays where it was last answered, and
// a new one goes where its prefix (tools and system) hashes to, because others of that prefix are
// there. With rendezvous hashing, a member that joins or leaves moves only its own share.
// Thread-safe and bounded; the longest silent conversation is forgotten first.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/lru_map.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::route {

class Affinity {
 public:
  // A member with at most this many running requests, the new one included, is never too busy for a
  // prefix that hashes to it, because a cold prefix costs more than the wait.
  static constexpr int kNeverBusy = 4;
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Options {
    size_t conversations_max = 65'536;  // about 150 bytes each
    std::chrono::seconds ttl{600};  // after the last answer; then the conversation is placed anew
    // A usable member gets no new conversation if its running requests, the new one included,
    // exceed both kNeverBusy and this factor times the mean, and another member has fewer. At least
    // 1.
    double load_factor = 1.25;
  };
  explicit Affinity(const Options& options)
      : options_(options), places_(options.conversations_max) {}

  struct Member {
    std::string_view name = {};
    bool usable = true;  // false: it is down and comes last
    int num_running = 0;
  };
  // Returns the indexes of all members in the order in which to ask them.
  std::vector<size_t> Order(const prompt::parse::Identity& conversation,
                            const prompt::parse::Identity& prefix, std::span<const Member> members,
                            TimePoint now);
  // Notes that `member` answered the conversation, which belongs there from then on.
  void Keep(const prompt::parse::Identity& conversation, std::string_view member, TimePoint now);

 private:
  struct Place {
    std::string member;
    TimePoint at;
  };

  const Options options_;
  std::mutex mutex_;
  LruMap<prompt::parse::Identity, Place> places_;  // by conversation
};

}  // namespace kvgate::route
