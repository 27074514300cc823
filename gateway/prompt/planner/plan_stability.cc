#include "gateway/prompt/planner/plan_stability.h"

#include <algorithm>

namespace kvgate::prompt::planner {
namespace {

constexpr size_t kEndsMax = 8;          // parallel requests of one conversation take turns
constexpr size_t kSharedMarks = 8;      // spread evenly over tools and system,
constexpr size_t kLastSharedMarks = 4;  // and more at their end, where system prompts change
constexpr size_t kTurnMarks = 12;       // at distances from the end that double
constexpr uint32_t kLostMax = 4;        // the write after it needs 256 requests
constexpr uint32_t kLostBits = 2;       // a lost write quadruples the requests

// Returns how many segments stand in front of the newest turn, which is all behind the last answer.
size_t FrontOf(std::span<const PlanSegment> segments) {
  size_t front = segments.size();
  while (front > 0 && segments[front - 1].section == parse::Section::kMessages &&
         segments[front - 1].role != parse::Role::kAssistant) {
    --front;
  }
  return front;
}

}  // namespace

void Stability::Lose() { num_lost_ = std::min(num_lost_ + 1, kLostMax); }

void Stability::Arrive(const Arrival& arrival) {
  if (ends_.empty()) return;
  num_repeated_ = 0;
  bool holds = false;
  const auto repeat = [&](const PrefixMark& mark) {
    const bool is_in = mark.IsIn(arrival.segments);
    if (is_in) num_repeated_ = std::max<size_t>(num_repeated_, mark.segment + 1);
    return is_in;
  };
  for (const PrefixMark& mark : marks_) repeat(mark);
  for (const End& end : ends_) holds |= repeat(end.mark);
  num_broken_ = holds ? 0 : num_broken_ + 1;
  only_newest_changed_ = front_ > 0 && num_repeated_ >= front_;
  double tokens = 0;
  for (const PlanSegment& segment : arrival.segments.first(num_repeated_)) {
    tokens += segment.num_tokens;
  }
  const bool is_worth = tokens > 0 && tokens >= arrival.minimum_tokens;
  num_held_ = arrival.in_time && is_worth ? num_held_ + 1 : 0;
  if (earned_ && !(arrival.in_time && earned_->IsIn(arrival.segments))) {
    earned_.reset();
    Lose();
  }
}

void Stability::Send(const Sent& sent) {
  const auto mark_of = [&](size_t segment) {
    return PrefixMark{static_cast<uint32_t>(segment), sent.segments[segment].prefix.low};
  };
  marks_.clear();
  const size_t num_shared = std::min(sent.num_shared, sent.segments.size());
  for (size_t i = 0; i < std::min(kSharedMarks, num_shared); ++i) {
    marks_.push_back(mark_of(num_shared * i / std::min(kSharedMarks, num_shared)));
  }
  for (size_t i = 0; i < std::min(kLastSharedMarks, num_shared); ++i) {
    marks_.push_back(mark_of(num_shared - 1 - i));
  }
  size_t distance = 0;
  for (size_t i = 0; i < kTurnMarks && distance <= sent.end; ++i) {
    if (sent.end - distance >= num_shared) marks_.push_back(mark_of(sent.end - distance));
    distance = std::max<size_t>(1, 2 * distance);
  }
  front_ = FrontOf(sent.segments);
  if (front_ > 0) marks_.push_back(mark_of(front_ - 1));
  const End end{mark_of(sent.end), sent.time_us};
  std::erase_if(ends_, [&](const End& known) { return known.mark == end.mark; });
  if (ends_.size() == kEndsMax) {
    // The new request stands for those that it continues.
    const auto continued = std::ranges::find_if(
        ends_, [&](const End& known) { return known.mark.IsIn(sent.segments); });
    ends_.erase(continued == ends_.end() ? ends_.begin() : continued);
  }
  ends_.push_back(end);
  earned_.reset();
  if (sent.earned) earned_ = mark_of(*sent.earned);
}

void Stability::Withdraw(int64_t time_us) {
  if (!ends_.empty() && ends_.back().time_us == time_us) {
    marks_.clear();
    earned_.reset();
  }
  std::erase_if(ends_, [&](const End& end) { return end.time_us == time_us; });
}

void Stability::Read(bool was_read, bool expects_earned) {
  num_unread_ = was_read ? 0 : num_unread_ + 1;
  if (!was_read) {
    Lose();
  } else if (expects_earned) {
    num_lost_ = 0;
  }
}

size_t Stability::NumTrusted(std::span<const PlanSegment> segments) const {
  return only_newest_changed_ ? std::max(num_repeated_, FrontOf(segments)) : num_repeated_;
}

bool Stability::EarnsWrite() const {
  const bool is_steady = num_broken_ != 1;  // after one change, what changes is not known yet
  return is_steady && num_held_ >= uint32_t{1} << (kLostBits * num_lost_);
}

}  // namespace kvgate::prompt::planner
