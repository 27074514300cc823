// A Histogram counts durations in fixed buckets, eight in each power of two, so that one of any
// process and any time can be added to another without loss. A percentile is interpolated in its
// bucket, whose ends differ by an eighth at most. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvgate::ledger::rollup {

class Histogram {
 public:
  // Counts `times` durations of that many microseconds; a negative one counts as 0.
  void Add(int64_t microseconds, int64_t times = 1);
  void Merge(const Histogram& other);
  bool empty() const { return counts_.empty(); }
  int64_t count() const;
  // Returns the duration that a share `q` of all, from 0 to 1, does not exceed; -1 if there are
  // none.
  int64_t Percentile(double q) const;

  // Appends it as bytes, in the layout of store/FORMAT.md.
  void Append(std::string& out) const;
  // Takes it from the front of `bytes`; returns false if it is none.
  bool Take(std::string_view& bytes);
  friend bool operator==(const Histogram&, const Histogram&) = default;

 private:
  using Count = std::pair<uint32_t, int64_t>;  // a bucket's number, and what it has counted
  void AddTo(const Count& count);

  std::vector<Count> counts_;  // ascending; most sums have few buckets
};

}  // namespace kvgate::ledger::rollup
