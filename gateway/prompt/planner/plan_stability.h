// Stability tells how much of a conversation's requests comes again byte for byte. A cache entry is
// found only if it does, so what has come again earns a write, and what has changed twice is no
// longer written until it holds. Plain values in bounded memory (about 0.5 KiB); the owner locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gateway/prompt/planner/plan.h"

namespace kvgate::prompt::planner {

// A prefix that was sent: its last segment, and the lower half of its identity.
struct PrefixMark {
  uint32_t segment = 0;
  uint64_t prefix = 0;

  bool IsIn(std::span<const PlanSegment> segments) const {
    return segment < segments.size() && segments[segment].prefix.low == prefix;
  }
  friend bool operator==(const PrefixMark&, const PrefixMark&) = default;
};

class Stability {
 public:
  struct Arrival {
    std::span<const PlanSegment> segments;
    bool in_time = false;       // it came within the usual lifetime after the last request
    double minimum_tokens = 0;  // estimated; a shorter prefix is not cached
  };
  // Compares a request with those that were sent before it.
  void Arrive(const Arrival& arrival);

  struct Sent {
    std::span<const PlanSegment> segments;
    size_t num_shared = 0;  // of tools and system
    size_t end = 0;         // the last segment that is expected to come again
    // The last segment that is written although the account would not have paid for it.
    std::optional<size_t> earned = std::nullopt;
    int64_t time_us = 0;
  };
  void Send(const Sent& sent);
  void Withdraw(int64_t time_us);  // for a request that was never answered
  // Notes the provider's report: whether the entry that was expected was read, and whether the
  // expectation included the last earned write.
  void Read(bool was_read, bool expects_earned);

  // The segments at the front that the last requests had too.
  size_t num_repeated() const { return num_repeated_; }
  // Returns the segments at the front that are expected to come again, if the newest turn is not:
  // all in front of it, if the last request came again up to its own newest turn.
  size_t NumTrusted(std::span<const PlanSegment> segments) const;
  // False after two successive requests that did not begin with an earlier one. What stands behind
  // the repeated segments is then taken to change again.
  bool TrustsNewest() const { return num_broken_ < kBrokenMax; }
  bool HasBroken() const { return num_broken_ > 0; }
  // True if what was cached has not been found twice running, although its bytes came again.
  bool IsEvicted() const { return num_unread_ >= kUnreadMax; }
  // True if the prefix held since the last request, so that a write is worth its price whatever was
  // lost before. Each earned write that nobody read quadruples the requests for which it must hold.
  bool EarnsWrite() const;
  // The last earned write is a prefix of the request that arrived last.
  const std::optional<PrefixMark>& earned() const { return earned_; }

 private:
  static constexpr uint32_t kBrokenMax = 2;
  static constexpr uint32_t kUnreadMax = 2;

  void Lose();

  std::vector<PrefixMark> marks_;  // of the last request, dense at the ends of its two parts
  struct End {
    PrefixMark mark;
    int64_t time_us = 0;
  };
  std::vector<End> ends_;  // of the last requests, newest last
  std::optional<PrefixMark> earned_;
  size_t num_repeated_ = 0;
  size_t front_ = 0;                  // the segments in front of the last request's newest turn
  bool only_newest_changed_ = false;  // those came again
  uint32_t num_broken_ = 0;           // successive requests that did not begin with an earlier one
  uint32_t num_held_ = 0;             // successive requests whose repeated part was worth a write
  uint32_t num_unread_ = 0;           // successive reads that were expected and did not come
  uint32_t num_lost_ = 0;             // earned writes that were lost since one was read
};

}  // namespace kvgate::prompt::planner
