#include "gateway/prompt/history/unanswered.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "gateway/prompt/history/prompt_text.h"
#include "gateway/prompt/history/restored_branch.h"

namespace kvgate::prompt::history {

using parse::Identity;
using parse::Section;

namespace {

class Comparison {
 public:
  explicit Comparison(const SecondRequest& now)
      : now_(now),
        turn_(now.first_turn != nullptr ? *now.first_turn : ReadFirstTurn(now.body, now.layout)),
        brings_answer_(CountAnswers(now.layout) == 1) {}

  bool brings_answer() const { return brings_answer_; }
  const FirstTurn& turn() const { return turn_; }

  bool HasItsWords(const Branch& branch) const {
    return brings_answer_ && turn().words != Identity{} && branch.first_turn->words == turn().words;
  }
  bool IsSameButForValues(const Branch& branch) {
    return turn().users == branch.first_turn->users && System().masks == SystemTextOf(branch).masks;
  }
  // Returns how many lines both have, if these are most of each's first turn and of each's system
  // prompt; else nullopt.
  std::optional<size_t> CommonLines(const Branch& branch) {
    const LineSketch& users = branch.first_turn->users;
    const size_t in_users = NumCommon(turn().users, users);
    if (!IsMost(in_users, turn().users.num_lines, users.num_lines)) return std::nullopt;
    const PromptText system = SystemTextOf(branch);
    const size_t in_system = NumCommon(System().masks, system.masks);
    if (!IsMost(in_system, System().masks.size(), system.masks.size())) return std::nullopt;
    return in_users + in_system;
  }
  bool HasSystemText() { return !System().masks.empty(); }
  bool BeginsAlike(const Branch& branch) {
    return branch.first_turn != nullptr && branch.first_turn->ends == turn().ends &&
           SharesTools(branch) && CommonLines(branch).has_value();
  }

 private:
  bool SharesTools(const Branch& branch) const {
    const std::vector<Identity> own = ToolsOf(now_.layout.segments);
    const std::vector<Identity> its = ToolsOf(branch.request.segments);
    std::vector<Identity> common;
    std::set_intersection(own.begin(), own.end(), its.begin(), its.end(),
                          std::back_inserter(common));
    return common.size() * 2 >= std::max(own.size(), its.size());
  }

  static bool IsMost(size_t common, size_t a, size_t b) { return common * 4 >= std::max(a, b) * 3; }
  const PromptText& System() {
    if (!system_) system_ = SystemTextOf(now_.body, now_.layout);
    return *system_;
  }

  const SecondRequest& now_;
  const FirstTurn turn_;
  const bool brings_answer_;
  std::optional<PromptText> system_;
};

bool SentTheSame(const Branch& a, const Branch& b) {
  const SentSegments& left = a.request.segments;
  const SentSegments& right = b.request.segments;
  return std::equal(
      left.begin(), left.end(), right.begin(), right.end(),
      [](const SentSegment& x, const SentSegment& y) { return x.sent_raw == y.sent_raw; });
}

}  // namespace

bool IsGoneOnFrom(const Branch& branch, BranchSpan branches) {
  return branch.first_turn != nullptr && CountAnswers(branch) == 0 &&
         std::any_of(branches.begin(), branches.end(), [&](const auto& other) {
           return other.get() != &branch && other->origin == branch.origin;
         });
}

bool BeginsAlike(const Branch& branch, const SecondRequest& now) {
  if (branch.first_turn == nullptr || now.first_turn == nullptr) return false;
  Comparison comparison(now);
  return comparison.HasSystemText() && comparison.BeginsAlike(branch);
}

std::shared_ptr<const Branch> ChooseUnanswered(BranchSpan branches, const SecondRequest& now) {
  Comparison comparison(now);
  std::shared_ptr<const Branch> alike;
  std::shared_ptr<const Branch> best;
  size_t most = 0;
  bool is_only = false;
  for (const auto& branch : branches) {
    if (branch->first_turn == nullptr || CountAnswers(*branch) > 0) continue;
    if (comparison.HasItsWords(*branch) || comparison.IsSameButForValues(*branch)) {
      if (alike) return nullptr;
      alike = branch;
    }
    const std::optional<size_t> common = comparison.CommonLines(*branch);
    if (!common || *common < most) continue;
    is_only = *common > most;
    if (is_only) best = branch;
    most = *common;
  }
  if (alike) return alike;
  return comparison.brings_answer() && is_only ? best : nullptr;
}

std::shared_ptr<const Branch> ChooseSimilar(BranchSpan branches, const SecondRequest& now) {
  if (now.first_turn == nullptr) return nullptr;
  Comparison comparison(now);
  if (!comparison.brings_answer() || !comparison.HasSystemText()) return nullptr;
  std::shared_ptr<const Branch> only;
  for (const auto& branch : branches) {
    const bool is_similar = branch->first_turn != nullptr && CountAnswers(*branch) == 0 &&
                            !IsGoneOnFrom(*branch, branches) && comparison.BeginsAlike(*branch);
    if (!is_similar) continue;
    if (only && !SentTheSame(*only, *branch)) return nullptr;
    if (!only) only = branch;
  }
  return only;
}

}  // namespace kvgate::prompt::history
