// RecordSpans counts the records between certain keys, so that the oldest ones can be deleted as
// one range of keys without being read. Each span ends with a key and begins behind the one before
// it. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

namespace kvgate::ledger {

class RecordSpans {
 public:
  // A span takes in steps until it has so many records, which bounds how many spans there are.
  explicit RecordSpans(int64_t span_records) : span_records_(span_records) {}

  // Adds so many records with keys up to `last`. REQUIRES: there is no span yet.
  void Restore(std::string last, int64_t count);
  // Adds the keys of one step, in any order. A key that is not behind the last span, because its
  // request took long, counts in the span that it falls into.
  void Add(std::span<const std::string_view> keys);

  // The records up to and including the key `last`.
  struct Oldest {
    std::string last = {};  // empty if there are none
    int64_t count = 0;
  };
  // Returns as many of the oldest spans as have at most so many records together.
  Oldest OldestOf(int64_t count_max) const;
  // Removes `count` of the records up to and including the key; what else the spans up to it have
  // falls to the next one.
  void Remove(std::string_view last, int64_t count);

  int64_t count() const { return count_; }  // of all records

 private:
  struct Span {
    std::string last;
    int64_t count = 0;
  };
  const int64_t span_records_;
  std::deque<Span> spans_;  // the oldest first
  int64_t count_ = 0;
};

}  // namespace kvgate::ledger
