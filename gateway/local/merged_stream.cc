#include "gateway/local/merged_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvgate::local {
namespace {

using dialect::form::CompletionEvent;
using dialect::form::CompletionStats;
using dialect::form::DeltaEvent;
using dialect::form::FinishEvent;

// Appends segments; neighbours of one source become one. No body's list tells several prompts
// apart.
void AppendSegments(const std::vector<dialect::form::PromptSegment>& more,
                    std::vector<dialect::form::PromptSegment>& segments) {
  for (const dialect::form::PromptSegment& segment : more) {
    if (segments.empty() || segments.back().source != segment.source) {
      segments.push_back({.source = segment.source});
    }
    segments.back().num_tokens += segment.num_tokens;
  }
}

class MergedStream final : public EventStream {
 public:
  MergedStream(std::vector<std::unique_ptr<EventStream>> choices, int num_answers)
      : choices_(std::move(choices)),
        stats_(choices_.size()),
        num_answers_(static_cast<size_t>(num_answers)),
        num_open_(choices_.size()) {
    KVGATE_CHECK(num_answers > 0 && !choices_.empty() && choices_.size() % num_answers_ == 0,
                 "choices that belong to no prompt");
  }

  std::vector<CompletionEvent> Take() override {
    std::vector<CompletionEvent> events;
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (choices_[i] == nullptr) continue;  // it has ended
      for (CompletionEvent& event : choices_[i]->Take()) {
        if (auto* delta = std::get_if<DeltaEvent>(&event)) {
          delta->choice = static_cast<int>(i);
          events.push_back(std::move(event));
          continue;
        }
        if (std::holds_alternative<dialect::form::BeginEvent>(event))
          continue;  // each choice has one
        auto& finish = std::get<FinishEvent>(event);
        if (finish.error) {
          choices_.clear();  // stops the others
          events.emplace_back(std::move(finish));
          return events;
        }
        events.push_back(EndChoice(i, std::move(finish)));
      }
    }
    return events;
  }

  void Cancel() override {
    for (const auto& choice : choices_) {
      if (choice != nullptr) choice->Cancel();
    }
  }

 private:
  // The last choice to end yields the FinishEvent of the whole answer.
  CompletionEvent EndChoice(size_t index, FinishEvent finish) {
    choices_[index].reset();
    stats_[index] = std::move(finish.stats);
    if (--num_open_ > 0) {
      return DeltaEvent{.choice = static_cast<int>(index), .finish = finish.reason};
    }
    return FinishEvent{.reason = finish.reason, .stats = SumStats()};
  }

  CompletionStats SumStats() const {
    CompletionStats sum = stats_.front();
    if (stats_.size() > 1) sum.last_stored_block = {};
    for (size_t i = 1; i < stats_.size(); ++i) {
      const CompletionStats& stats = stats_[i];
      sum.num_output_tokens += stats.num_output_tokens;
      sum.num_reasoning_tokens += stats.num_reasoning_tokens;
      sum.total_seconds = std::max(sum.total_seconds, stats.total_seconds);
      sum.itl_seconds_max = std::max(sum.itl_seconds_max, stats.itl_seconds_max);
      if (i % num_answers_ != 0) continue;
      sum.num_prompt_tokens += stats.num_prompt_tokens;
      sum.num_cached_tokens += stats.num_cached_tokens;
      sum.num_device_tokens += stats.num_device_tokens;
      sum.num_host_tokens += stats.num_host_tokens;
      sum.num_disk_tokens += stats.num_disk_tokens;
      sum.num_shared_tokens += stats.num_shared_tokens;
      AppendSegments(stats.segments, sum.segments);
    }
    return sum;
  }

  std::vector<std::unique_ptr<EventStream>> choices_;  // null: it has ended
  std::vector<CompletionStats> stats_;                 // set for those that have ended
  const size_t num_answers_;                           // per prompt
  size_t num_open_;
};

}  // namespace

std::unique_ptr<EventStream> MergeStreams(std::vector<std::unique_ptr<EventStream>> choices,
                                          int num_answers) {
  return std::make_unique<MergedStream>(std::move(choices), num_answers);
}

}  // namespace kvgate::local
