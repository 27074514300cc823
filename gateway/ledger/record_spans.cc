#include "gateway/ledger/record_spans.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvgate::ledger {

void RecordSpans::Restore(std::string last, int64_t count) {
  if (count <= 0) return;
  spans_.push_back({.last = std::move(last), .count = count});
  count_ = count;
}

void RecordSpans::Add(std::span<const std::string_view> keys) {
  if (keys.empty()) return;
  if (spans_.empty() || spans_.back().count >= span_records_) spans_.emplace_back();
  Span& newest = spans_.back();
  const std::string_view before =
      spans_.size() > 1 ? std::string_view(spans_[spans_.size() - 2].last) : std::string_view();
  for (const std::string_view key : keys) {
    ++count_;
    if (key > before) {
      if (key > newest.last) newest.last = key;
      ++newest.count;
    } else {
      ++std::ranges::lower_bound(spans_.begin(), std::prev(spans_.end()), key, {}, &Span::last)
            ->count;
    }
  }
  // None of the keys was new: an empty span would have no end.
  if (newest.count == 0) spans_.pop_back();
}

RecordSpans::Oldest RecordSpans::OldestOf(int64_t count_max) const {
  Oldest oldest;
  for (const Span& span : spans_) {
    if (oldest.count + span.count > count_max) break;
    oldest.last = span.last;
    oldest.count += span.count;
  }
  return oldest;
}

void RecordSpans::Remove(std::string_view last, int64_t count) {
  count_ = std::max<int64_t>(0, count_ - count);
  int64_t left = -count;  // negative: taken from the next span
  while (!spans_.empty() && spans_.front().last <= last) {
    left += spans_.front().count;
    spans_.pop_front();
  }
  if (!spans_.empty()) spans_.front().count = std::max<int64_t>(0, spans_.front().count + left);
}

}  // namespace kvgate::ledger
