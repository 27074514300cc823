// Affinity: which member of a pool is asked for a prompt. Members' caches are their own, so what
// counts is that a prefix comes to the same one again: a conversation stays where it was answered
// last, and a new one goes where its prefix (tools and system) hashes to, which is where others of
// that prefix are. Rendezvous hashing: a member that comes or goes moves only its own share.
// Thread-safe; bounded, the conversation silent longest is forgotten first.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gateway/prompt/parse/segment.h"

namespace kvgate::route {

class Affinity {
 public:
  // So few running requests keep no member from a prefix that it has: a cold one costs more.
  static constexpr int kNeverBusy = 4;
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Options {
    size_t conversations_max = 65'536;  // about 150 bytes each
    std::chrono::seconds ttl{600};      // after the last answer; then it is placed anew
    // A member with more than this times the mean of running requests, and more than
    // kNeverBusy of them, gets no new conversation while another has less; at least 1.
    double load_factor = 1.25;
  };
  explicit Affinity(const Options& options) : options_(options) {}

  struct Member {
    std::string_view name = {};
    bool usable = true;  // false: down; asked last
    int num_running = 0;
  };
  // Indices of all members in the order in which to ask them.
  std::vector<size_t> Order(const prompt::Identity& conversation, const prompt::Identity& prefix,
                            std::span<const Member> members, TimePoint now);
  // It was answered there: it belongs there from now on, or still.
  void Keep(const prompt::Identity& conversation, std::string_view member, TimePoint now);

 private:
  struct Place {
    prompt::Identity conversation;
    std::string member;
    TimePoint at;
  };

  const Options options_;
  std::mutex mutex_;
  std::list<Place> places_;  // the one used last is in front
  std::unordered_map<prompt::Identity, std::list<Place>::iterator> by_conversation_;
};

}  // namespace kvgate::route
